"""`python -m nixt_pipeline.cli` is `nixt`."""

from nixt_pipeline.cli import main

if __name__ == "__main__":
    main()

"""`python -m nacre` is the `nacre` command."""

from nacre.cli import main

if __name__ == "__main__":
    main()

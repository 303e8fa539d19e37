"""What every room stands on: the library, its errors, arguments, tables, plans and calls."""

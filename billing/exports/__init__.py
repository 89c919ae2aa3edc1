"""The ledger as files for finance: FOCUS 1.4 datasets as CSV and Parquet, made from the log alone.

Nothing here asks a view: whoever can read the log can make the same bytes.
"""

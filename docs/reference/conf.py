"""The reference of the package for Python. packaging/reference sets where it is written."""

project = "Stripline for Python"
extensions = ["sphinx.ext.autodoc"]
# As in all texts of the project: backticks are code.
default_role = "code"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"

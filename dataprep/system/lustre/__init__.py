"""Where Lustre puts the bytes of a file: asked for on its directory, before it is written.

By rules (`rules`), with the site's own `lfs`, and read back (`striping`).
"""

"""Where a parallel file system puts the bytes of a file: asked for before it is written.

On Lustre a directory has a default layout that every new file in it takes over. A wrong one
cannot be mended by renaming: the bytes must be written again. So it is set on the directories of
a data set before their first file, by rules (`rules`), with the site's own `lfs` (`lfs`), and then
read back, because a site may refuse without saying so.
"""

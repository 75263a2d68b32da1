"""Any image set: class folders, archives of them, or a listing."""

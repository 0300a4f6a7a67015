"""Where Canal keeps its cursors."""

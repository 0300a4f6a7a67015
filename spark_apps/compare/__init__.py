"""Every row of both sides, compared while both go on changing."""

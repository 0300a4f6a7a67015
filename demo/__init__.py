"""The demo: the main job on real servers from nothing, and the shop it runs on."""

"""When people are alerted, how urgently, and in which words. Values and decisions only: `notifications` sends them."""

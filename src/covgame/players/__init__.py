"""Who plays episodes: a game, an algorithm or a peer, each with a source of episodes."""

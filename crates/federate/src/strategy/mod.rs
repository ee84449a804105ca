//! What a server makes of the updates of a round.

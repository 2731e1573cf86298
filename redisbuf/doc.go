// Package redisbuf moves large Redis values straight between the socket and the caller's memory.
//
// A [Client] is made from the go-redis client that a program has already, and stands beside it: commands with small values
// stay where they are, values of some kilobytes and more take the Client's own connections.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	c, err := redisbuf.New(rdb)
//	...
//	n, err := c.GetToBuffer(ctx, "key", buf)                          // into memory that you have
//	err = c.GetChain(ctx, "key", &chain, 32<<20)                      // into pooled blocks
//	n64, err := c.GetTo(ctx, "key", conn)                             // from socket to socket
//	err = c.SetFromBuffer(ctx, "key", buf, redisbuf.Expire(time.Hour)) // in one writev
//	err = c.SetFile(ctx, "key", file)                                 // by sendfile
//
// # Ownership
//
// Everything borrows what it is given until it returns; a [Pipeline], until Exec returns. The blocks that GetChain adds to a
// chain belong to the chain, whose owner releases them.
//
// # Errors
//
// A call that returns no error has read exactly a value that the key had, or has set it. Errors of the server are those
// that go-redis has for them. Calls that are safe to retry are retried as often as go-redis would, except on a [Conn], or
// once a reader was read or a writer written to. After a [SentError] nobody knows whether the value was set.
package redisbuf

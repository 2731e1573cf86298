// Package stackbuf provides [Buffer], a [bytes.Buffer] that needs no heap for its first 64 bytes.
//
//	var b stackbuf.Buffer // on the stack, with room for 64 bytes
//	b.WriteString("id=")
//	b.Write(strconv.AppendInt(b.AvailableBuffer(), id, 10))
//	return b.String() // the only allocation
//
// A Buffer that is passed as an [io.Writer], for example to fmt.Fprintf or json.NewEncoder, is on
// the heap and saves nothing. Use [Buffer.Printf] instead of fmt.Fprintf, and a sync.Pool of
// bytes.Buffers for encoders. To append bytes only, a local [64]byte array and the built-in append
// are as fast.
//
// A [bytes.Buffer] once had such an array inside, but kept a slice of it, and so never stayed on
// the stack (golang.org/issue/7921). A stackbuf.Buffer never keeps a pointer into itself. The
// compiler moves it to the heap only if the caller returns, stores or sends a slice of the
// contents, so that no slice can dangle. There is no unsafe code.
package stackbuf

// Package stackbuf provides a [Buffer], a [bytes.Buffer] that holds its first 64 bytes without the
// heap.
//
//	var b stackbuf.Buffer // on the stack, with room for 64 bytes
//	b.WriteString("id=")
//	b.Write(strconv.AppendInt(b.AvailableBuffer(), id, 10))
//	return b.String() // the only allocation
//
// A Buffer that is passed as an [io.Writer], for example to fmt.Fprintf or json.NewEncoder, is on
// the heap and saves nothing. Use [Buffer.Printf] instead of fmt.Fprintf, and a sync.Pool of
// bytes.Buffers for encoders. If you only append bytes, a local [64]byte array and the built-in
// append are as fast.
//
// A [bytes.Buffer] once had such an array inside. It never stayed on the stack, because it kept a
// slice of the array, and a value that holds a pointer to itself escapes (golang.org/issue/7921).
// The array was removed. A stackbuf.Buffer never keeps a pointer into itself: every method makes
// the slice of the array anew. The compiler therefore sees that the Buffer's address does not
// escape. It moves a Buffer to the heap only if the caller returns, stores or sends a slice of the
// contents, so that no slice can dangle. There is no unsafe code.
package stackbuf

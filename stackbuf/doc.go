// Package stackbuf provides a [Buffer], a [bytes.Buffer] that needs no heap for its first bytes.
//
//	var b stackbuf.Buffer // on the stack, with room for 64 bytes
//	b.WriteString("id=")
//	b.Write(strconv.AppendInt(b.AvailableBuffer(), id, 10))
//	return b.String() // the only allocation
//
// A [bytes.Buffer] once had such an array inside. It never stayed on the stack: the Buffer kept a
// slice of the array, and a value that holds a pointer to itself escapes (golang.org/issue/7921).
// The array was removed. A stackbuf.Buffer never keeps a pointer into itself. While the contents
// are small, every method makes the slice of the array anew. So the compiler sees that a Buffer's
// address does not escape. The exception is a method that returns a slice of the contents, because
// the compiler ties that slice to the Buffer. If such a slice is returned, stored or sent, the
// compiler moves the Buffer to the heap, so that no slice can dangle. There is no unsafe code.
package stackbuf

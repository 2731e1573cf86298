// Package stackbuf has a [Buffer] that is a [bytes.Buffer] whose first bytes need no heap.
//
//	var b stackbuf.Buffer // on the stack, with room for 64 bytes
//	b.WriteString("id=")
//	b.Write(strconv.AppendInt(b.AvailableBuffer(), id, 10))
//	return b.String() // the only allocation
//
// A [bytes.Buffer] once had such an array inside. It never stayed on the stack: the Buffer kept a slice of its own
// array, and to the compiler a value that holds a pointer to itself escapes (golang.org/issue/7921). The array was
// removed. Here nothing is ever kept that points into the value: while the contents are small, every method makes the
// slice of the array anew. So the compiler sees that a Buffer's address goes nowhere, except where a method returns a
// slice of the contents. Such a slice is tied to the Buffer in the compiler's eyes. A Buffer whose Bytes are returned,
// stored or sent is moved to the heap before anything can dangle. There is no unsafe code.
package stackbuf

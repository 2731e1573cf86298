// Package escape is compiled by a test that checks where the compiler puts its variables. The
// comment after a variable's declaration states where that should be. No name is used twice.
package escape

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/millrace-io/millrace/stackbuf"
)

func everyMethodThatReturnsNoSlice(p []byte, s string) (total int) {
	var local stackbuf.Buffer // stays
	local.Grow(10)
	local.Write(p)
	local.WriteString(s)
	local.WriteByte('x')
	local.WriteRune('é')
	total = local.Len() + local.Cap() + local.Available()
	local.Read(p)
	local.ReadByte()
	local.UnreadByte()
	local.ReadRune()
	local.UnreadRune()
	local.Truncate(1)
	local.Shrink()
	local.Reset()
	return total
}

func copiesAreReturned() (string, string, []byte) {
	var told stackbuf.Buffer // stays
	told.WriteString("a line and more")
	line, _ := told.ReadString(' ')
	word, _ := told.ReadBytes(' ')
	return told.String(), line, word
}

func slicesAreUsedHere(p []byte) (sum int) {
	var lent stackbuf.Buffer // stays
	lent.Write(p)
	for _, c := range lent.Bytes() {
		sum += int(c)
	}
	peeked, _ := lent.Peek(3)
	return sum + len(peeked) + copy(p, lent.Next(2))
}

func appended(n int64) string {
	var number stackbuf.Buffer // stays
	number.Write(strconv.AppendInt(number.AvailableBuffer(), n, 10))
	return number.String()
}

func comesAndGoes(src io.Reader, dst io.Writer) error {
	var relay stackbuf.Buffer // stays
	if _, err := relay.ReadFrom(src); err != nil {
		return err
	}
	_, err := relay.WriteTo(dst)
	return err
}

func returnedByValue() stackbuf.Buffer {
	var value stackbuf.Buffer // stays
	value.WriteString("value")
	another := value // stays
	another.WriteByte('2')
	return another
}

type record struct {
	id   int
	text stackbuf.Buffer
}

func insideAnother() (int, string) {
	var whole record // stays
	whole.text.WriteByte('x')
	return whole.id, whole.text.String()
}

func sentByValue(values chan<- stackbuf.Buffer) {
	var sent stackbuf.Buffer // stays
	sent.WriteByte('x')
	values <- sent
}

func usedByAClosureThatStays() (n int) {
	var near stackbuf.Buffer // stays
	add := func(s string) { near.WriteString(s) }
	add("x")
	return near.Len()
}

func passedOn() int {
	var lower stackbuf.Buffer // stays
	fill(&lower)
	return lower.Len()
}

//go:noinline
func fill(b *stackbuf.Buffer) { b.WriteByte('x') }

func constructed() (int, string) {
	var room [100]byte                   // stays
	over := stackbuf.NewBuffer(room[:0]) // stays
	over.WriteString("x")
	text := stackbuf.NewBufferString("x") // stays
	return over.Len(), text.String()
}

func lookedUp(m map[string]int) int {
	var wanted stackbuf.Buffer // stays
	wanted.WriteByte('x')
	return m[string(wanted.Bytes())]
}

func comparedAndCopied(p []byte) ([]byte, bool) {
	var compared stackbuf.Buffer // stays
	compared.WriteByte('x')
	return append(p, compared.Bytes()...), bytes.Equal(bytes.TrimSpace(compared.Bytes()), p)
}

func formatted(n int) string {
	var form stackbuf.Buffer // stays
	form.Write(fmt.Appendf(form.AvailableBuffer(), "%d", n))
	form.Printf("%d", n)
	form.Write(binary.BigEndian.AppendUint32(form.AvailableBuffer(), uint32(n)))
	return form.String()
}

func deferred(p []byte) {
	var late stackbuf.Buffer // stays
	defer func() { copy(p, late.Bytes()) }()
	late.WriteByte('x')
}

func storedByValue(dst *record) {
	var twin stackbuf.Buffer // stays
	twin.WriteByte('x')
	dst.text = twin
}

// From here on, a slice or the Buffer itself outlives the function.

func encoded(n int) string {
	var encodedTo stackbuf.Buffer // moves
	json.NewEncoder(&encodedTo).Encode(n)
	return encodedTo.String()
}

func copiedTo(src io.Reader) int {
	var target stackbuf.Buffer // moves
	io.Copy(&target, src)
	return target.Len()
}

func splitUp() [][]byte {
	var whole2 stackbuf.Buffer // moves
	whole2.WriteString("x y")
	return bytes.Split(whole2.Bytes(), []byte(" "))
}

func sliceCaptured() func() int {
	var sliced stackbuf.Buffer // moves
	sliced.WriteByte('x')
	p := sliced.Bytes()
	return func() int { return len(p) }
}

func addressSent(buffers chan<- *stackbuf.Buffer) {
	var posted stackbuf.Buffer // moves
	buffers <- &posted
}

func addressStored(dst *struct{ b *stackbuf.Buffer }) {
	var linked stackbuf.Buffer // moves
	dst.b = &linked
}

func bytesReturned() []byte {
	var returned stackbuf.Buffer // moves
	returned.WriteByte('x')
	return returned.Bytes()
}

func nextReturned() []byte {
	var taken stackbuf.Buffer // moves
	taken.WriteByte('x')
	return taken.Next(1)
}

func peekReturned() ([]byte, error) {
	var seen stackbuf.Buffer // moves
	seen.WriteByte('x')
	return seen.Peek(1)
}

func availableReturned() []byte {
	var spare stackbuf.Buffer // moves
	return spare.AvailableBuffer()
}

var kept []byte

func bytesStored() {
	var stored stackbuf.Buffer // moves
	stored.WriteByte('x')
	kept = stored.Bytes()
}

func bytesSent(slices chan<- []byte) {
	var away stackbuf.Buffer // moves
	away.WriteByte('x')
	slices <- away.Bytes()
}

func bytesInAStruct(dst *struct{ p []byte }) {
	var field stackbuf.Buffer // moves
	field.WriteByte('x')
	dst.p = field.Bytes()
}

func captured() func() string {
	var closed stackbuf.Buffer // moves
	closed.WriteByte('x')
	return func() string { return closed.String() }
}

func onAnotherGoroutine(done chan<- struct{}) {
	var foreign stackbuf.Buffer // moves
	go func() {
		foreign.WriteByte('x')
		done <- struct{}{}
	}()
}

func printed(n int) string {
	var printedTo stackbuf.Buffer // moves
	fmt.Fprintf(&printedTo, "%d", n)
	return printedTo.String()
}

func bytesWritten(dst io.Writer) {
	var offered stackbuf.Buffer // moves
	offered.WriteByte('x')
	dst.Write(offered.Bytes())
}

func addressReturned() *stackbuf.Buffer {
	var outlives stackbuf.Buffer // moves
	return &outlives
}

func viewWritten(dst io.Writer) error {
	var shown [100]byte                  // moves
	view := stackbuf.NewBuffer(shown[:]) // stays
	_, err := view.WriteTo(dst)
	return err
}

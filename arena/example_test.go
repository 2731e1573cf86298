package arena_test

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/millrace-io/millrace/arena"
)

// A frame is written in the steps in which it arrives, and passed to a goroutine, which releases
// it.
func Example() {
	pool := arena.NewPool(1 << 10)

	pool.Write([]byte("header,"))
	// A reader would call io.ReadFull(conn, pool.Writable(n)).
	copy(pool.Writable(len("payload")), "payload")
	frame := pool.Take() // contiguous, and owned by the receiver

	var work sync.WaitGroup
	work.Go(func() {
		defer frame.Release()
		fmt.Printf("%s: %d bytes, %v mode\n", frame.Bytes(), frame.Len(), pool.Mode())
	})
	work.Wait()
	fmt.Println("all released:", pool.Droppable())
	// Output:
	// header,payload: 14 bytes, back mode
	// all released: true
}

// When the slots or the memory are used up, frames are allocated on the heap. After the first
// release there is room again.
func Example_exhaustion() {
	pool := arena.NewPool(8 * 100)

	var held []arena.Slice
	var modes []arena.Mode
	for range 9 {
		pool.Writable(100)
		held = append(held, pool.Take())
		modes = append(modes, pool.Mode())
	}
	fmt.Println(modes)

	held[2].Release()
	pool.Writable(100)
	held[2] = pool.Take()
	fmt.Println("one was released:", pool.Mode())

	for i := range held {
		held[i].Release()
	}
	pool.Writable(800)
	fmt.Println("all were released:", pool.Mode())
	// Output:
	// [back back back back back back back back alloc]
	// one was released: front
	// all were released: back
}

// Messages may have any length. Each takes as much memory as it has bytes. A message that outgrows
// the free memory is moved.
func Example_variableSizes() {
	pool := arena.NewPool(1000)

	var held []arena.Slice
	for _, n := range []int{10, 400, 90, 500} {
		pool.Writable(n)
		held = append(held, pool.Take())
		fmt.Printf("%3d bytes: %v\n", n, pool.Mode())
	}
	held[1].Release()
	for range 3 {
		pool.Writable(150)
		fmt.Printf("%3d bytes: %v\n", pool.Len(), pool.Mode())
	}
	held[1] = pool.Take()
	fmt.Println("moved to the heap:", pool.Stats().Spills)
	for i := range held {
		held[i].Release()
	}
	// Output:
	//  10 bytes: back
	// 400 bytes: back
	//  90 bytes: back
	// 500 bytes: back
	// 150 bytes: front
	// 300 bytes: front
	// 450 bytes: alloc
	// moved to the heap: 1
}

// A Pool with NoHeap refuses frames that do not fit. It never holds more than its capacity.
func ExampleNoHeap() {
	pool := arena.NewPool(100, arena.NoHeap())
	pool.Writable(80)
	frame := pool.Take()

	fmt.Println(pool.Writable(30) == nil)
	_, err := pool.Write(make([]byte, 30))
	fmt.Println(err)

	frame.Release()
	fmt.Println(len(pool.Writable(30)))
	// Output:
	// true
	// arena: no room for the frame, and the Pool has NoHeap
	// 30
}

// A frame is encrypted in place, after a header in plain text, and decrypted in place by the
// receiver.
func ExamplePool_Seal() {
	block, err := aes.NewCipher([]byte("sixteen byte key"))
	if err != nil {
		fmt.Println(err)
		return
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		fmt.Println(err)
		return
	}
	nonce := make([]byte, aead.NonceSize()) // use a new one for each frame
	pool := arena.NewPool(1 << 10)

	header := pool.Writable(2)
	binary.BigEndian.PutUint16(header, uint16(len("a secret")))
	pool.SetStart(2)
	pool.Write([]byte("a secret"))
	if err := pool.Seal(aead, nonce, pool.Data(2)); err != nil {
		fmt.Println(err)
		return
	}
	sealed := pool.Take()
	fmt.Println("sealed:", sealed.Len(), "bytes")

	pool.Write(sealed.Bytes())
	sealed.Release()
	pool.SetStart(2)
	if err := pool.Open(aead, nonce, pool.Data(2)); err != nil {
		fmt.Println(err)
		return
	}
	opened := pool.Take()
	fmt.Printf("opened: %q\n", opened.Bytes())
	opened.Release()
	// Output:
	// sealed: 26 bytes
	// opened: "\x00\ba secret"
}

// An owner that keeps a frame for long moves it out of the Pool's memory.
func ExampleSlice_Promote() {
	pool := arena.NewPool(1 << 10)
	pool.Write([]byte("kept for an hour"))
	frame := pool.Take()
	fmt.Println(pool.Stats().SlotsInUse, "slot in use")

	frame.Promote()
	fmt.Println(pool.Stats().SlotsInUse, "slots in use,", string(frame.Bytes()))
	frame.Release()
	// Output:
	// 1 slot in use
	// 0 slots in use, kept for an hour
}

// Package millrace moves bytes through network services without copying them and without allocating
// memory for each message.
//
// It has six main types. A [Pool] lends blocks of memory. A [Draft] is a block with one writer. A
// [Ref] is a read-only share of part of a block. [Draft.Freeze] turns the Draft into a Ref.
// [Draft.Cut] turns only the first bytes into a Ref, and the Draft keeps the rest. A [Chain] is a
// queue of Refs. A [Reader] is a drop-in replacement for [bufio.Reader] that lends its blocks
// instead of copying out of them. It has every method of bufio.Reader, and it holds no memory while
// it waits for a socket. A [Writer] is a drop-in replacement for [bufio.Writer] that also sends
// Chains by reference. It holds no memory after Flush.
//
//	          Get                Freeze             Append
//	Pool ────────────▶ Draft ────────────▶ Ref ────────────▶ Chain ──── WriteTo ───▶ socket (one writev)
//	 ▲                                      │ Clone, Slice     ▲
//	 │                                      ▼                  │ ReadChain
//	 └──────────── last Release ◀────── more Refs           Reader ◀──── socket
//
// # The rule of ownership
//
// A block is borrowed from a Pool. Every Ref and Chain has one owner. The owner releases the Ref or
// Chain once, or passes it on to a new owner.
//
//   - "Takes ownership" means that the callee owns the argument from the call on, even if it
//     returns an error. The caller's variable is left empty, and releasing an empty variable does
//     nothing.
//   - "Borrows" means that the callee uses its argument only until it returns.
//   - To keep bytes for longer, call Clone, which adds a share and copies nothing, or copy the
//     bytes.
//   - Bytes that a share makes visible never change while the share is held.
//   - A failed call leaves nothing new to release. The bytes that arrived before the failure are in
//     a Chain that the caller already owns.
//
// Ref and Chain are plain values. A copy, for example on a channel, takes the place of the
// original: use only the copy. The original is not left empty, and must not be released.
// Alternatively, pass a pointer.
//
// # When the rule is broken
//
// A Ref carries the generation of its block. Using or releasing a copy of a Ref or Chain after its
// block returned to the Pool panics in every build. It panics even if the Pool has lent the block
// again since then (up to 2³² times). These mistakes are detected late, or not at all:
//
//   - Use of the released variable itself. It is empty after Release, so its methods find no bytes:
//     Draft.Bytes and Ref.Bytes return nil, and Chain.WriteTo sends nothing.
//   - Use of a copied Ref after the original was released, while the block has other shares or a
//     Reader still fills it. Nothing panics, and a Reader may write new bytes there.
//   - A double release in the same situation. The second release gives up a share that belongs to
//     another owner. The panic comes later, when the number of shares reaches zero too early. It
//     may come in the code of an owner who made no mistake.
//   - Use of a slice after its share was released. The slice is plain memory: nothing panics, and
//     its bytes change when the Pool lends the block again.
//   - A write into a Draft's bytes after Freeze, through an earlier slice or an earlier copy of the
//     Draft. The holders of shares see the changed bytes.
//
// Building with -tags invariants catches the first three mistakes at once, but makes the program
// too slow for production. Every double release and every use of a released Draft or Ref panics
// with the stacks of its allocation and its release. Reading or sending from a Chain after its
// Release panics with the stack of the Release, unless the Chain has been filled again. A block's
// memory is overwritten when the block returns to the Pool. [Pool.Leaks] returns the stacks of the
// allocations that have not been released.
//
// Package millracetest finds leaks and late uses in tests, and the command millracevet finds many
// of these mistakes with go vet.
package millrace

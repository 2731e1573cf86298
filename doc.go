// Package millrace moves bytes through network services without copying them and without making
// garbage.
//
// It has five nouns. A [Pool] lends blocks of memory. A [Draft] is a block with one writer;
// [Draft.Freeze] turns it into a [Ref], one read-only share of part of a block, and [Draft.Cut]
// turns its first bytes into one. A [Chain] is a queue of Refs. A [Reader] is a buffered network
// reader, a drop-in for [bufio.Reader], that lends its blocks instead of copying out of them.
// Nearly half of the package is the Reader, because it has every method of bufio.Reader in addition
// to its own, and waits for sockets without holding memory.
//
//	          Get                Freeze             Append
//	Pool ────────────▶ Draft ────────────▶ Ref ────────────▶ Chain ──── WriteTo ───▶ socket (one writev)
//	 ▲                                      │ Clone, Slice     ▲
//	 │                                      ▼                  │ ReadChain
//	 └──────────── last Release ◀────── more Refs           Reader ◀──── socket
//
// # The rule of ownership
//
// A block is memory on loan from a Pool. Every Ref and Chain has one owner, who releases it once or
// passes it on to a new owner.
//
//   - "Takes ownership" means that the callee owns the argument from the call on, even if it
//     returns an error. The caller's variable is left empty, and releasing an empty variable does
//     nothing.
//   - "Borrows" means that the callee uses its argument only until it returns.
//   - To keep bytes for longer, Clone (another share, no copy) or copy them out.
//   - Bytes that a share makes visible never change while the share is held.
//   - A call that fails leaves you nothing new to release: the bytes that arrived before the
//     failure are in a Chain that you already own.
//
// Ref and Chain are plain values. Copying one moves it: use the copy and forget the original, or
// pass a pointer.
//
// # When the rule is broken
//
// A Ref carries the generation of its block. Using or releasing a copy of a Ref or Chain after its
// block returned to the Pool panics in every build. It does so even if the block has been lent
// again meanwhile (up to 2³² times). These mistakes are detected late, or not at all:
//
//   - Use of the released variable itself. It is empty after Release, so its methods find no bytes:
//     Draft.Bytes and Ref.Bytes return nil, and Chain.WriteTo sends nothing.
//   - Use of a copied Ref after the original was released, while the block has not returned to the
//     Pool because there are other shares or a Reader is still filling it. Nothing panics, and a
//     Reader may write new bytes there.
//   - A double release in that situation. It takes away another owner's share. The panic comes when
//     the count reaches zero too early, perhaps at an owner who made no mistake.
//   - A slice that is used after its share was released. The slice is plain memory: nothing panics,
//     and its bytes change when the memory is used again.
//   - A write into a Draft's bytes after Freeze, through an earlier slice or an earlier copy of the
//     Draft. The holders of shares see the changed bytes.
//
// Building with -tags invariants catches the first three at once, at a cost that only tests can
// afford. Every double release and every use of a released Draft or Ref panics with the stacks of
// its allocation and its release. Reading or sending from a Chain after its Release panics with the
// stack of the Release, unless the Chain has been filled again. A block's memory is overwritten
// when the block returns to the Pool. [Pool.Leaks] returns the stacks of the allocations that have
// not been released.
package millrace

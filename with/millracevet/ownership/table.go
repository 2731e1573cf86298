package ownership

import (
	"fmt"
	"go/types"
	"strings"
)

// table lists the effects of library functions on memory. A line contains a package, a function and
// the effects. The receiver of a method is argument 0, and the first parameter is argument 1.
// Methods that are not listed, such as Len, neither use the bytes nor change the owner.
//
//	gives      the caller must release the result
//	releases   releases the receiver
//	uses       accesses the bytes of the receiver, which must not be released
//	takes(n)   takes ownership of the memory of argument n, which is empty afterwards
//	fills(n)   adds memory to argument n, except after an error
//	adds(n)    adds memory to argument n, even after an error
//	borrows(n) uses argument n until the call returns
//	keeps(n)   uses argument n until Exec is called on the receiver
//	drains(n)  may empty argument n
//	sends      empties the receiver; after an error, the unsent bytes remain
//	drops      makes every slice of the receiver stale
//	flushes    leaves the receiver without memory
//	renews     makes a released receiver usable again
//	lends      returns a slice that is valid until the receiver is released
//	peeks      returns a slice that is valid until the next "reads" call or the release
//	reads      makes the peeked slices of the receiver stale
//	skips      the next "peeks" call makes earlier peeked slices stale
//	calls(n)   calls argument n with slices that are valid until argument n returns
//	yields     returns an iterator over slices that are valid for one iteration
const table = `
millrace  Pool.Get                gives
millrace  Pool.NewReader          gives
millrace  Pool.NewWriter          gives
millrace  Pool.NewSlab            gives
millrace  NewReader               gives
millrace  NewReaderSize           gives
millrace  NewReaderFrom           gives
millrace  NewWriter               gives
millrace  NewWriterSize           gives

millrace  Draft.Bytes             lends uses
millrace  Draft.Cut               gives uses
millrace  Draft.Freeze            gives takes(0)
millrace  Draft.Release           releases

millrace  Ref.Bytes               lends uses
millrace  Ref.Clone               gives uses
millrace  Ref.Slice               gives uses
millrace  Ref.Release             releases

millrace  Slab.Copy               gives adds(0)
millrace  Slab.Release            releases

millrace  Chain.All               uses
millrace  Chain.Append            adds(0) takes(1)
millrace  Chain.AppendCopy        adds(0)
millrace  Chain.AppendTo          uses
millrace  Chain.Body              gives uses
millrace  Chain.Bytes             lends uses
millrace  Chain.CloneTo           uses fills(1)
millrace  Chain.CopyTo            uses
millrace  Chain.CutTo             drains(0) fills(1)
millrace  Chain.Discard           drains(0) drops
millrace  Chain.Merge             adds(0) takes(1)
millrace  Chain.Pop               gives drains(0)
millrace  Chain.ReadFrom          adds(0)
millrace  Chain.Reader            lends uses
millrace  Chain.Release           releases
millrace  Chain.SliceTo           uses fills(1)
millrace  Chain.Write             adds(0)
millrace  Chain.WriteTo           sends uses
millrace  ChainReader.Read        uses
millrace  ChainReader.ReadAt      uses
millrace  ChainReader.WriteTo     uses

millrace  Body.Clone              gives uses
millrace  Body.Close              releases
millrace  Body.Read               uses
millrace  Body.ReadAt             uses
millrace  Body.WriteTo            uses
millrace  Spool.Next              gives

millrace  Reader.Peek             peeks uses
millrace  Reader.Read             reads uses
millrace  Reader.ReadBE           reads uses
millrace  Reader.ReadByte         reads uses
millrace  Reader.ReadBytes        reads uses
millrace  Reader.ReadChain        reads uses fills(1)
millrace  Reader.ReadChainDelim   reads uses fills(1)
millrace  Reader.ReadLE           reads uses
millrace  Reader.ReadLine         reads peeks uses
millrace  Reader.ReadRange        reads uses calls(2)
millrace  Reader.ReadRef          reads uses gives
millrace  Reader.ReadRune         reads uses
millrace  Reader.ReadSlice        reads peeks uses
millrace  Reader.ReadString       reads uses
millrace  Reader.ReadULEB128      reads uses
millrace  Reader.ReadUvarint      reads uses
millrace  Reader.Skip             skips uses
millrace  Reader.Discard          skips uses
millrace  Reader.WriteTo          reads uses
millrace  Reader.Reset            renews
millrace  Reader.Release          releases

millrace  Writer.AvailableBuffer  peeks
millrace  Writer.Flush            reads flushes
millrace  Writer.ReadFrom         reads uses
millrace  Writer.Reset            renews
millrace  Writer.Release          releases
millrace  Writer.Write            reads uses
millrace  Writer.WriteByte        reads uses
millrace  Writer.WriteRune        reads uses
millrace  Writer.WriteString      reads uses
millrace  Writer.WriteChain       reads uses takes(1)

arena     Pool.Take               gives reads
arena     Heap.Take               gives reads
arena     Buffer.Take             gives reads
arena     Pool.Writable           reads peeks
arena     Heap.Writable           reads peeks
arena     Buffer.Writable         reads peeks
arena     Pool.Write              reads
arena     Heap.Write              reads
arena     Buffer.Data             peeks
arena     frame.Data              peeks
arena     Buffer.Seal             reads
arena     Pool.Seal               reads
arena     Heap.Seal               reads
arena     Buffer.Truncate         reads
arena     Pool.Truncate           reads
arena     Slice.Bytes             lends uses
arena     Slice.Promote           uses drops
arena     Slice.Release           releases

stackbuf  Buffer.AvailableBuffer  peeks
stackbuf  Buffer.Bytes            peeks
stackbuf  Buffer.Next             peeks
stackbuf  Buffer.Peek             peeks
stackbuf  Buffer.Grow             reads
stackbuf  Buffer.Printf           reads
stackbuf  Buffer.ReadFrom         reads
stackbuf  Buffer.Reset            reads
stackbuf  Buffer.Truncate         reads
stackbuf  Buffer.Write            reads
stackbuf  Buffer.WriteByte        reads
stackbuf  Buffer.WriteRune        reads
stackbuf  Buffer.WriteString      reads

chunk     Reader.Next             gives uses
chunk     Reader.Chunks           yields uses
chunk     Reader.Close            releases
chunk     OpenTail                gives
chunk     Tail.Close              releases

frame     NewDecoder              borrows(1)
frame     NewVarDecoder           borrows(1)
frame     Decoder.Next            fills(1)
frame     Decoder.NextInto        gives
frame     Encoder.Append          adds(1) takes(3)
frame     Encoder.Assemble        gives
sv2       NewOpener               borrows(1)
sv2       Opener.NextInto         gives
sv2       Sealer.Seal             gives
websocket AppendMessage           adds(1) takes(3)
websocket Conn.Next               fills(1)
websocket Conn.Write              takes(2)
websocket Conn.WriteFrames        takes(1)

broadcast Ring.Cursor             gives
broadcast Ring.Watch              gives
broadcast Ring.Publish            takes(1)
broadcast Ring.SetPreamble        takes(1)
broadcast Cursor.Next             fills(2) uses
broadcast Cursor.Take             fills(1) uses
broadcast Cursor.Close            releases
broadcast Watcher.Stop            releases

redisbuf  Client.Conn             gives
redisbuf  Client.ReaderAt         gives
redisbuf  Client.GetChain         fills(3)
redisbuf  Client.SetChain         borrows(3)
redisbuf  Pipeline.GetChain       drains(2)
redisbuf  Pipeline.SetChain       borrows(2) keeps(2)
redisbuf  Pipeline.SetFromBuffer  keeps(2)
redisbuf  Pipeline.GetToBuffer    keeps(2)
redisbuf  Pipeline.GetRangeToBuffer keeps(3)
redisbuf  Pipeline.Exec
redisbuf  Conn.Close              releases
redisbuf  ReaderAt.Close          releases
redisbuf  ReaderAt.Read           uses
redisbuf  ReaderAt.ReadAt         uses

flv       NewDecoder              borrows(1)
flv       AppendHeader            adds(1)
flv       Decoder.Next            fills(1)
flv       Encoder.Append          fills(1) takes(4)
flv       Encoder.Retime          adds(1) borrows(2)
mp4       Movie.AppendEarlier     adds(1) drains(2)
mp4       Muxer.AppendInit        fills(1)
mp4       Muxer.Flush             drains(1)
mp4       Muxer.WriteTag          drains(1) takes(3)
hls       Window.Add              takes(2)
hls       Window.Append           drains(1)
hls       Window.Init             takes(1)
rtmp      NewDecoder              borrows(1)
rtmp      NewClientConn           borrows(1)
rtmp      NewServerConn           borrows(1)
rtmp      ClientConn.AppendEnd    adds(1)
rtmp      Decoder.Next            fills(1)
rtmp      Encoder.Append          fills(1) takes(3)
rtmp      Encoder.SetChunkSize    adds(1)
rtmp      ServerConn.AppendEnd    adds(1)
rtmp      ServerConn.Next         drains(1)
`

// owners lists the types that must be released. A * marks a type that is used through a pointer.
// Other types of the library need no release.
var owners = fields(`
millrace.Ref millrace.Draft millrace.Chain millrace.Slab arena.Slice
*millrace.Reader *millrace.Writer *millrace.Body
*broadcast.Cursor *broadcast.Watcher *redisbuf.Conn *redisbuf.ReaderAt
*chunk.Tail`)

// singles lists the types that only one goroutine at a time may use.
var singles = fields(`millrace.Chain millrace.Ref millrace.Draft millrace.Slab millrace.Reader
millrace.Writer stackbuf.Buffer`)

// aliases lists standard library functions that return parts of their first argument.
var aliases = fields(`bytes.TrimSpace bytes.Trim bytes.TrimLeft bytes.TrimRight bytes.TrimPrefix
bytes.TrimSuffix bytes.TrimFunc bytes.Fields bytes.Split bytes.SplitN bytes.Cut bytes.CutPrefix
bytes.CutSuffix bytes.SplitAfter bytes.SplitAfterN bytes.FieldsFunc bytes.Lines bytes.SplitSeq
bytes.SplitAfterSeq bytes.FieldsSeq bytes.FieldsFuncSeq slices.Clip`)

func fields(s string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(s) {
		set[word] = true
	}
	return set
}

// A rule contains the effects of one function. The lists contain argument numbers.
type rule struct {
	gives, releases, uses, sends, renews, lends, peeks, reads, skips, yields, drops, flushes bool
	takes, fills, adds, borrows, keeps, drains, calls                                        []int
}

// libraryPackages maps import paths without the module path to the package names in table.
var libraryPackages = map[string]string{
	"":                 "millrace",
	"/arena":           "arena",
	"/broadcast":       "broadcast",
	"/chunk":           "chunk",
	"/frame":           "frame",
	"/frame/sv2":       "sv2",
	"/frame/websocket": "websocket",
	"/media/flv":       "flv",
	"/media/hls":       "hls",
	"/media/mp4":       "mp4",
	"/media/rtmp":      "rtmp",
	"/redisbuf":        "redisbuf",
	"/stackbuf":        "stackbuf",
}

const module = "github.com/millrace-io/millrace"

var rules = parse()

func parse() map[string]*rule {
	all := map[string]*rule{}
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		r := &rule{}
		flags := map[string]*bool{"gives": &r.gives, "releases": &r.releases, "uses": &r.uses,
			"sends": &r.sends, "renews": &r.renews, "lends": &r.lends, "peeks": &r.peeks,
			"reads": &r.reads, "skips": &r.skips, "yields": &r.yields, "drops": &r.drops,
			"flushes": &r.flushes}
		lists := map[string]*[]int{"takes": &r.takes, "fills": &r.fills, "adds": &r.adds,
			"borrows": &r.borrows, "keeps": &r.keeps, "drains": &r.drains, "calls": &r.calls}
		for _, word := range words[2:] {
			name, arg, found := strings.Cut(strings.TrimSuffix(word, ")"), "(")
			if !found {
				*flags[name] = true
				continue
			}
			var n int
			if _, err := fmt.Sscan(arg, &n); err != nil {
				panic(err)
			}
			*lists[name] = append(*lists[name], n)
		}
		all[words[0]+"."+words[1]] = r
	}
	return all
}

// nameOf returns the name of a library type or function, such as millrace.Ref. The constant table
// uses the same names. For any other object, nameOf returns "".
func nameOf(o types.Object) string {
	if o == nil || o.Pkg() == nil {
		return ""
	}
	suffix, ok := strings.CutPrefix(o.Pkg().Path(), module)
	if !ok || libraryPackages[suffix] == "" {
		return ""
	}
	name := o.Name()
	if f, ok := o.(*types.Func); ok {
		if recv := f.Signature().Recv(); recv != nil {
			name = typeName(recv.Type()) + "." + name
			_, name, _ = strings.Cut(name, ".")
		}
	}
	return libraryPackages[suffix] + "." + name
}

// typeName returns the name of type t or, for a pointer, of its element type.
func typeName(t types.Type) string {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := types.Unalias(t).(*types.Named); ok {
		return nameOf(n.Obj())
	}
	return ""
}

// ownerValue reports whether t is an owner type that is used without a pointer.
func ownerValue(t types.Type) bool {
	_, pointer := types.Unalias(t).(*types.Pointer)
	return !pointer && owners[typeName(t)]
}

// ownerPointer reports whether t is a pointer to an owner type.
func ownerPointer(t types.Type) bool {
	_, pointer := types.Unalias(t).(*types.Pointer)
	return pointer && owners["*"+typeName(t)]
}

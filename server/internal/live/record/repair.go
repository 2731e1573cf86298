package record

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/disk"
)

// maxInit is the maximum size of the init segment of a file, in bytes. The init segment of a Muxer
// has at most two sequence headers of 64 KiB each.
const maxInit = 256 << 10

// unsynced is the duration at the end of an unfinished recording that may be damaged after a crash
// of the machine. Linux writes data to the disk after 35 s at most, unless it is configured
// otherwise or the disk is too slow.
const unsynced = 2 * time.Minute

// sectorSize is the size of a sector in bytes. A disk writes whole sectors. A sector of a file that
// was not written before a crash contains zeros. H.264, H.265 and AAC have no run of zeros as long
// as a sector.
const sectorSize = 512

// headGuess is the number of bytes of a fragment that are read at first. Most heads are shorter.
const headGuess = 512

// hasEnded reports whether the playlist of a recording ends with EXT-X-ENDLIST. The argument name
// is the path of the recording without an extension.
func hasEnded(root disk.Root, name string) (bool, error) {
	f, err := root.Open(name + listExt)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer f.Close()
	var b [len(endLine)]byte
	if _, err := f.Seek(-int64(len(b)), io.SeekEnd); err != nil {
		return false, nil // the playlist is shorter than endLine
	}
	_, err = io.ReadFull(f, b[:])
	return string(b[:]) == endLine, err
}

// finish completes a recording that is no longer written to, and returns the total size of its
// files. name is a path without an extension.
//
// finish truncates the media file before the first damaged or incomplete fragment, and replaces the
// playlist by one that ends with EXT-X-ENDLIST. If there is no complete fragment, it deletes both
// files and returns 0. If this package did not write the media file, finish leaves it unchanged,
// and returns an error. When finish returns, both files and their names are on the disk.
func finish(root disk.Root, name string) (int64, error) {
	media, err := root.OpenFile(name+mediaExt, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, remove(root, name)
	} else if err != nil {
		return 0, err
	}
	defer media.Close()
	info, err := media.Stat()
	if err != nil {
		return 0, err
	}
	r := reader{file: media, size: info.Size()}
	text, err := root.ReadFile(name + listExt)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	init, err := r.readInit()
	if err == errTorn {
		return 0, remove(root, name)
	} else if err != nil {
		return 0, err
	}
	base := path.Base(name) + mediaExt
	known := parseList(text, base, init, r.size)
	if r.size, err = r.intact(known, init); err != nil {
		return 0, err
	}
	known = parseList(text, base, init, r.size)
	end, target, entries, err := r.readSegments(known, init, base, stampTime(path.Base(name)))
	if err != nil {
		return 0, err
	}
	if end == init {
		return 0, remove(root, name)
	}
	if end < info.Size() {
		if err := media.Truncate(end); err != nil {
			return 0, err
		}
	}
	if err := media.Sync(); err != nil {
		return 0, err
	}
	whole := append(listHeader(finished, base, init, target), entries...)
	whole = append(whole, endLine...)
	if err := replaceList(root, name, whole); err != nil {
		return 0, err
	}
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if err := disk.SyncDir(root, dir); err != nil || dir == "." {
			return end + int64(len(whole)), err
		}
	}
}

// remove deletes the files of a recording, and then the directories that contained them if they are
// empty.
func remove(root disk.Root, name string) error {
	for _, ext := range extensions {
		if err := root.Remove(name + ext); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if root.Remove(dir) != nil { // the directory is not empty
			break
		}
	}
	return nil
}

// replaceList writes text to a new file, and then renames the file to replace the playlist of a
// recording.
func replaceList(root disk.Root, name string, text []byte) error {
	f, err := root.OpenFile(name+newListExt, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(name+newListExt, name+listExt)
	}
	if err != nil {
		_ = root.Remove(name + newListExt)
	}
	return err
}

type reader struct {
	file  io.ReaderAt
	size  int64
	movie mp4.Movie
	head  []byte
}

var errTorn = errors.New("record: the init segment is not whole")

// readInit reads the init segment, and returns its size.
func (r *reader) readInit() (end int64, err error) {
	b := make([]byte, min(r.size, maxInit))
	if _, err := r.file.ReadAt(b, 0); err != nil {
		return 0, err
	}
	if isZero(b[:min(len(b), 8)]) {
		return 0, errTorn
	}
	for _, kind := range []string{"ftyp", "moov"} {
		box := b[end:]
		if name := box[min(4, len(box)):min(8, len(box))]; !strings.HasPrefix(kind, string(name)) {
			return 0, mp4.ErrNotMP4
		}
		if len(box) < 4 {
			return 0, errTorn
		}
		n := int64(binary.BigEndian.Uint32(box))
		if end += n; n < 8 || end > maxInit {
			return 0, mp4.ErrNotMP4
		}
		if end > r.size {
			return 0, errTorn
		}
	}
	if hole, err := r.firstHole(0, end); err != nil || hole < end {
		return 0, cmp.Or(err, errTorn)
	}
	r.movie, err = mp4.ReadMovie(b[:end])
	return end, err
}

// intact returns the offset of the first damage in the media file, or the end of its last complete
// fragment. It does not check the segments in known that are older than unsynced. init is the size
// of the init segment.
func (r *reader) intact(known list, init int64) (end int64, err error) {
	end = init
	for _, e := range known.entries {
		if known.entries[len(known.entries)-1].date.Sub(e.date) <= unsynced {
			break
		}
		end = e.end
	}
	if r.size, err = r.firstHole(end, r.size); err != nil {
		return 0, err
	}
	for {
		f, ok, err := r.readFragment(end)
		if errors.Is(err, mp4.ErrNotMP4) && (end > init || isZero(r.head[:8])) {
			return end, nil
		} else if err != nil {
			return 0, fmt.Errorf("at byte %d: %w", end, err)
		} else if !ok {
			return end, nil
		}
		end += int64(f.Size)
	}
}

// firstHole returns the offset of the first sector of the file that contains only zeros, or end if
// there is none. It checks the sectors that contain the bytes from start to end.
func (r *reader) firstHole(start, end int64) (int64, error) {
	b := make([]byte, 64<<10)
	for at := start - start%sectorSize; at < end; at += int64(len(b)) {
		part := b[:min(int64(len(b)), r.size-at)]
		if _, err := r.file.ReadAt(part, at); err != nil && err != io.EOF {
			return 0, err
		}
		for i := 0; i < len(part); i += sectorSize {
			if hole := at + int64(i); hole < end && isZero(part[i:min(i+sectorSize, len(part))]) {
				return max(hole, start), nil
			}
		}
	}
	return end, nil
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// readFragment returns the fragment at offset. ok is false if the fragment is incomplete. If the
// bytes are not a fragment, the error is mp4.ErrNotMP4.
func (r *reader) readFragment(offset int64) (f mp4.FragmentInfo, ok bool, err error) {
	for need := headGuess; need > 0; {
		if r.head = r.head[:0]; cap(r.head) < need {
			r.head = make([]byte, 0, need)
		}
		head := r.head[:min(int64(need), r.size-offset)]
		if _, err := r.file.ReadAt(head, offset); err != nil && err != io.EOF {
			return f, false, err
		}
		if f, need, err = r.movie.ReadFragment(head); err != nil || int64(need) > r.size-offset {
			return f, false, err
		}
	}
	return f, f.Size >= f.Head && int64(f.Size) <= r.size-offset, nil
}

// readSegments finds all segments of the media file. It returns the end of the last complete
// fragment, the target duration, and the playlist entries.
//
// known has the segments of the playlist. readSegments drops those at the end that do not match the
// media file, and finds the later segments in the media file. init is the size of the init segment,
// media is the file name, and date is the date of the first fragment.
func (r *reader) readSegments(known list, init int64, media string, date time.Time) (end int64,
	target time.Duration, text []byte, err error) {
	s := segmenter{target: known.target, zero: date}
	end = init
	for n := len(known.entries); n > 0; n-- {
		known.truncate(n)
		last := known.entries[n-1]
		if end, err = r.resume(&s, last); err != nil {
			return 0, 0, nil, err
		}
		if end == last.end {
			break
		}
		known.truncate(n - 1)
		s, end = segmenter{target: known.target, zero: date}, init
	}
	text = bytes.Clone(known.text)
	longest := s.target
	add := func(g segment) {
		text = g.appendEntry(text, media)
		longest = max(longest, wholeSeconds(g.end-g.start))
	}
	for first := true; ; first = false {
		f, ok, err := r.readFragment(end)
		if err != nil && (end == init || !errors.Is(err, mp4.ErrNotMP4)) {
			return 0, 0, nil, fmt.Errorf("at byte %d: %w", end, err)
		}
		if !ok {
			break
		}
		at := time.Time{}
		if first && !s.placed {
			at = date
		}
		if g, ok := s.add(f, at, end); ok {
			add(g)
		}
		end += int64(f.Size)
	}
	if g, ok := s.finish(); ok {
		add(g)
	}
	return end, max(longest, s.target), text, nil
}

// resume prepares s for the segment that follows the entry e. To do so, it reads the fragments of e
// from the media file. It returns the offset at which the last complete fragment of e ends.
func (r *reader) resume(s *segmenter, e listEntry) (end int64, err error) {
	for end = e.offset; end < e.end; {
		f, ok, err := r.readFragment(end)
		if errors.Is(err, mp4.ErrNotMP4) {
			return end, nil
		} else if err != nil || !ok {
			return end, err
		}
		if end == e.offset {
			s.zero = e.date.Add(-f.Start)
		}
		s.line.Add(f)
		s.placed, s.sequence = true, f.Sequence
		end += int64(f.Size)
	}
	s.open = segment{}
	return end, nil
}

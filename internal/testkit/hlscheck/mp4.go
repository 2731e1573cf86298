package hlscheck

import (
	"encoding/binary"
	"fmt"
	"strings"
)

type box struct {
	typ  string
	body []byte
}

// splitBoxes splits data into boxes. It returns an error if data does not end with a complete box.
func splitBoxes(data []byte) ([]box, error) {
	var bs []box
	for len(data) > 0 {
		head := uint64(8)
		if uint64(len(data)) < head {
			return bs, fmt.Errorf("%d bytes after the last box", len(data))
		}
		size := uint64(binary.BigEndian.Uint32(data))
		if size == 1 && len(data) >= 16 {
			size, head = binary.BigEndian.Uint64(data[8:]), 16
		}
		if size < head || size > uint64(len(data)) {
			return bs, fmt.Errorf("box %q of %d bytes, %d are left", data[4:8], size, len(data))
		}
		bs = append(bs, box{string(data[4:8]), data[head:size]})
		data = data[size:]
	}
	return bs, nil
}

// find returns the bodies of all boxes at a path such as moof/traf/tfdt.
func find(data []byte, path string) (found [][]byte) {
	typ, rest, deeper := strings.Cut(path, "/")
	bs, _ := splitBoxes(data)
	for _, b := range bs {
		switch {
		case b.typ != typ:
		case deeper:
			found = append(found, find(b.body, rest)...)
		default:
			found = append(found, b.body)
		}
	}
	return found
}

func checkInit(data []byte) error {
	bs, err := splitBoxes(data)
	switch {
	case err != nil:
		return err
	case len(bs) < 2 || bs[0].typ != "ftyp" || bs[1].typ != "moov":
		return fmt.Errorf("not ftyp and moov in %d boxes", len(bs))
	case len(find(data, "moov/mvex/trex")) != len(find(data, "moov/trak")):
		return fmt.Errorf("not a trex for each trak")
	case len(find(data, "mdat")) > 0:
		return fmt.Errorf("an mdat")
	}
	return nil
}

// A timeline has the last decode time of each track.
type timeline map[uint32]uint64

// check checks the boxes of a segment or part. The decode times of each track must increase.
func (t timeline) check(data []byte) (rule string, err error) {
	bs, err := splitBoxes(data)
	if err != nil {
		return "media-boxes", err
	}
	fragments := 0
	for i, b := range bs {
		switch b.typ {
		case "moof":
			if i+1 == len(bs) || bs[i+1].typ != "mdat" {
				return "media-boxes", fmt.Errorf("no mdat after moof")
			}
			fragments++
			for _, traf := range find(b.body, "traf") {
				tfhd, tfdt := find(traf, "tfhd"), find(traf, "tfdt")
				if len(tfhd) != 1 || len(tfdt) != 1 || len(tfhd[0]) < 8 || len(tfdt[0]) < 8 {
					return "media-boxes", fmt.Errorf("a traf without tfhd and tfdt")
				}
				track := binary.BigEndian.Uint32(tfhd[0][4:])
				at := uint64(binary.BigEndian.Uint32(tfdt[0][4:]))
				if tfdt[0][0] == 1 && len(tfdt[0]) >= 12 {
					at = binary.BigEndian.Uint64(tfdt[0][4:])
				}
				last, seen := t[track]
				if t[track] = at; seen && at <= last {
					return "decode-time", fmt.Errorf("track %d: %d after %d", track, at, last)
				}
			}
		case "mdat", "styp", "sidx", "prft", "emsg", "free", "skip", "uuid":
		default:
			return "media-boxes", fmt.Errorf("a box %q", b.typ)
		}
	}
	if fragments == 0 {
		return "media-boxes", fmt.Errorf("no moof")
	}
	return "", nil
}

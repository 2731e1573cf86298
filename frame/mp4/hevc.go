package mp4

import "encoding/binary"

const hevcSPS = 33 // NAL unit type

// parseHEVC reads the picture's size out of an HEVCDecoderConfigurationRecord, and fills c with it. The record itself goes into
// the hvcC box as it is. It returns what is wrong with it, or "".
func parseHEVC(c *config) string {
	p := c.record
	if len(p) < 23 {
		return "record is cut short"
	}
	if p[0] != 1 {
		return "record is not of version 1"
	}
	arrays := int(p[22])
	p = p[23:]
	for range arrays {
		if len(p) < 3 {
			return "record is cut short"
		}
		kind, units := p[0]&0x3f, int(binary.BigEndian.Uint16(p[1:]))
		p = p[3:]
		for range units {
			if len(p) < 2 {
				return "record is cut short"
			}
			n := int(binary.BigEndian.Uint16(p))
			if p = p[2:]; n > len(p) {
				return "record is cut short"
			}
			if kind == hevcSPS {
				return parseHEVCSPS(c, unescape(p[:n]))
			}
			p = p[n:]
		}
	}
	return "no sequence parameter set"
}

// parseHEVCSPS follows ITU-T H.265, 7.3.2.2.1, up to the conformance window.
func parseHEVCSPS(c *config, rbsp []byte) string {
	b := &bitReader{p: rbsp}
	b.skip(16 + 4) // NAL header, video parameter set
	layers := int(b.u(3))
	b.skip(1)      // nesting
	b.skip(88 + 8) // profile, level
	var profiles, levels int
	for range layers {
		profiles += int(b.u(1))
		levels += int(b.u(1))
	}
	if layers > 0 {
		b.skip(2 * (8 - layers))
	}
	b.skip(88*profiles + 8*levels)
	b.ue() // id
	chroma, planes := b.ue(), false
	if chroma == 3 {
		planes = b.flag()
	}
	width, height := uint64(b.ue()), uint64(b.ue())
	crop := readCrop(b)
	unitX, unitY := cropUnits(chroma, planes)
	return c.setSize(b, width, height, crop, unitX, unitY)
}

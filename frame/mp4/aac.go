package mp4

// Sampling rates by number: ISO/IEC 14496-3, table 1.18.
var aacRates = [...]uint32{96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350}

// Audio object types that change how the rest is read.
const (
	aacSBR = 5  // spectral band replication: the rate that follows is that of the core, half of what comes out
	aacLD  = 23 // low delay: 512 samples per frame
	aacPS  = 29 // parametric stereo on top of SBR
	aacELD = 39
)

// parseAAC reads rate, channels and frame length out of an AudioSpecificConfig, and fills c with them. The record itself goes
// into the esds box as it is. It returns what is wrong with it, or "".
func parseAAC(c *config) string {
	b := &bitReader{p: c.record}
	kind := aacKind(b)
	c.scale = aacRate(b)
	c.channels = uint16(b.u(4))
	if kind == aacSBR || kind == aacPS {
		aacRate(b) // what comes out
		kind = aacKind(b)
	}
	shorter := b.flag()
	switch {
	case b.short:
		return "cut short"
	case kind == 0:
		return "audio object type 0"
	case c.scale == 0:
		return "no sampling rate"
	}
	switch c.channels {
	case 0: // described elsewhere in the record; decoders look there
		c.channels = 2
	case 7:
		c.channels = 8
	}
	c.step = 1024
	if shorter {
		c.step = 960
	}
	if kind == aacLD || kind == aacELD {
		c.step /= 2
	}
	return ""
}

func aacKind(b *bitReader) uint32 {
	if kind := b.u(5); kind != 31 {
		return kind
	}
	return 32 + b.u(6)
}

// aacRate reads a sampling rate; 0 when its number means none.
func aacRate(b *bitReader) uint32 {
	n := b.u(4)
	if n == 15 {
		return b.u(24)
	}
	if int(n) < len(aacRates) {
		return aacRates[n]
	}
	return 0
}

package redistest

import (
	"fmt"
	"strings"
)

// Slots is the number of hash slots of a cluster.
const Slots = 16384

// Slot returns the hash slot of a key: of what stands in its first pair of braces, if that is not empty.
func Slot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	return int(crc16(key)) % Slots
}

// crc16 is CRC-16/XMODEM, a bit at a time.
func crc16(s string) uint16 {
	var crc uint16
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			carry := crc & 0x8000
			crc <<= 1
			if carry != 0 {
				crc ^= 0x1021
			}
		}
	}
	return crc
}

// KeyIn returns a key of that slot that ends in name: the same one for the same arguments.
func KeyIn(slot int, name string) string {
	for i := 0; ; i++ {
		if key := fmt.Sprintf("{%d}%s", i, name); Slot(key) == slot {
			return key
		}
	}
}

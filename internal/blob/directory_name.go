package blob

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	// suffix keeps names from meaning something to others: index.html, or .gitignore.
	suffix = ".blob"

	// maxPlainName leaves room for suffix in the 255 bytes that file systems have for a name.
	maxPlainName = 240

	// shards is how many directories the files are spread over, so that none becomes so large that it is slow to read.
	shards = 256
)

// A place is where the file of a key is.
type place struct {
	shard int
	path  string // below the root, as in "3f/film.mp4.blob"
}

// placeOf returns where the file of key is. No two keys have the same place, even where upper and lower case are the
// same to the file system. A name is the key, with everything but a few characters written as %2f; or, if that is too
// long, "%h" and a hash, which is no such name.
func placeOf(key string) place {
	const digits = "0123456789abcdef"
	sum := sha256.Sum256([]byte(key))
	var name strings.Builder
	for i := 0; i < len(key) && name.Len() <= maxPlainName; i++ {
		c := key[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' && i > 0 {
			name.WriteByte(c)
		} else {
			name.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	text := name.String()
	if len(text) > maxPlainName {
		text = "%h" + hex.EncodeToString(sum[:])
	}
	return place{shard: int(sum[0]), path: shardName(int(sum[0])) + "/" + text + suffix}
}

// shardName returns the name of a directory of files.
func shardName(i int) string { return hex.EncodeToString([]byte{byte(i)}) }

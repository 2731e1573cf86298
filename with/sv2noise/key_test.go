package sv2noise

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// The key and its text are from section 4.7 of the specification.
const specText = "9bXiEd8boQVhq7WddEcERUL5tyyJVFYdU8th3HfbNXK3Yw6GRXh"

var specKey = PublicKey{118, 99, 112, 0, 151, 156, 28, 17, 175, 12, 48, 11, 205, 140, 127, 228, 134,
	16, 252, 233, 185, 193, 30, 61, 174, 227, 90, 224, 176, 138, 116, 85}

func TestPublicKeyAsText(t *testing.T) {
	if got := specKey.String(); got != specText {
		t.Errorf("%s, want %s", got, specText)
	}
	if got, err := ParsePublicKey(specText); err != nil || got != specKey {
		t.Errorf("%x, %v, want %x", got[:], err, specKey[:])
	}
	for range 100 {
		key := GenerateKey().Public()
		if got, err := ParsePublicKey(key.String()); err != nil || got != key {
			t.Errorf("%x became %x, %v", key[:], got[:], err)
		}
	}
}

func TestParsePublicKeyRefuses(t *testing.T) {
	var noPoint PublicKey
	noPoint[31] = 5
	all := PublicKey(bytes.Repeat([]byte{0xff}, 32)) // above the field's prime
	for _, s := range []string{
		"", "1", "0", specText[:len(specText)-1], specText + "1", "1" + specText[1:], "1" + specText,
		strings.ToUpper(specText), " " + specText, "/" + specText, specText + "\n",
		specText[:20] + "é" + specText[22:], strings.Repeat("z", 55),
		strings.Repeat("z", 1<<20), noPoint.String(), all.String(),
		specText[:len(specText)-1] + "i", // another checksum
		"4XpYqyY1zX5X", "1111111111111111111111111111111111111111111111111111",
	} {
		if key, err := ParsePublicKey(s); err == nil || key != (PublicKey{}) || len(err.Error()) > 500 {
			t.Errorf("%.100q: %x, %v", s, key[:], err)
		}
	}
}

func TestNewPrivateKeyRefuses(t *testing.T) {
	order := []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe" +
		"\xba\xae\xdc\xe6\xaf\x48\xa0\x3b\xbf\xd2\x5e\x8c\xd0\x36\x41\x41")
	for _, p := range [][]byte{nil, {1}, make([]byte, 31), make([]byte, 32), make([]byte, 33),
		order, bytes.Repeat([]byte{0xff}, 32), append([]byte{0}, order...)} {
		if k, err := NewPrivateKey(p); err == nil || k != nil {
			t.Errorf("%x is a key", p)
		}
	}
	order[31]-- // the largest key
	k, err := NewPrivateKey(order)
	if err != nil || !bytes.Equal(k.Bytes(), order) {
		t.Error(k, err)
	}
}

func TestPrivateKeyIsNotPrinted(t *testing.T) {
	k := GenerateKey()
	again, err := NewPrivateKey(k.Bytes())
	if err != nil || again.Public() != k.Public() {
		t.Fatal(err)
	}
	secret := k.Bytes()
	for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%d"} {
		s := fmt.Sprintf(verb, k)
		if strings.Contains(s, fmt.Sprintf("%x", secret)) || len(s) > 80 {
			t.Errorf("%s prints %s", verb, s)
		}
	}
}

// Every encoding of a key decodes to this key. There are many for each.
func TestEncodings(t *testing.T) {
	seen := make(map[encodedKey]bool)
	for range 20 {
		k := GenerateKey()
		for range 20 {
			pair := k.pair()
			if got, err := pair.public.decode(); err != nil || got != k.Public() {
				t.Fatalf("%x decodes to %x, %v, want %x", pair.public[:], got[:], err, k.Public())
			}
			seen[pair.public] = true
		}
	}
	if len(seen) != 400 {
		t.Errorf("%d of 400 encodings are different", len(seen))
	}
}

package arena

import "crypto/cipher"

// Seal and Open stand once for each Buffer, because the one has to ask for room and the other must not depend on it: what
// they have in common is here.

// seal encrypts the body, behind which room for the overhead has been made. An AEAD may use less of it than it said, and
// panics if the nonce is not as long as it wants: then the frame is as long as it was.
func (f *frame) seal(aead cipher.AEAD, overhead int, nonce, additionalData []byte) {
	body := f.body()
	plain := body[:len(body)-overhead]
	f.end -= overhead
	f.end = f.begin + f.start + len(aead.Seal(plain[:0], nonce, plain, additionalData))
}

// Open decrypts the frame from its start on, in place, and makes it shorter by the AEAD's overhead. It borrows nonce and
// additionalData, which may be bytes of the frame in front of its start. The error is the AEAD's; after an error, what was
// to be decrypted is no longer there.
func (f *frame) Open(aead cipher.AEAD, nonce, additionalData []byte) error {
	body := f.body()
	plain, err := aead.Open(body[:0], nonce, body, additionalData)
	f.end = f.begin + f.start + len(plain)
	return err
}

// Seal encrypts the frame from its start on, in place, and makes it longer by the AEAD's overhead. It borrows nonce and
// additionalData, which may be bytes of the frame in front of its start. It returns ErrFull, and the frame is as it was,
// when there is no room for the overhead, or for 16 bytes if that is less.
func (p *Pool) Seal(aead cipher.AEAD, nonce, additionalData []byte) error {
	n := aead.Overhead()
	room := sealingRoom(n)
	number, data := p.lend(nonce), p.lend(additionalData)
	if p.Writable(room) == nil {
		return ErrFull
	}
	p.end -= room - n
	p.seal(aead, n, number.of(&p.frame), data.of(&p.frame))
	return nil
}

// tagRoom is the least room behind a frame that is sealed. AES-GCM with a tag shorter than that writes over what comes
// after it (golang/go#80288): somebody else's frame in a Pool, anything on the heap. It does not when it opens.
const tagRoom = 16

// sealingRoom returns how much room there has to be behind a frame that becomes n bytes longer when it is sealed.
func sealingRoom(n int) int {
	if n == 0 {
		return 0
	}
	return max(n, tagRoom)
}

// Seal encrypts the frame from its start on, in place, and makes it longer by the AEAD's overhead. It borrows nonce and
// additionalData, which may be bytes of the frame in front of its start. It returns nil.
func (h *Heap) Seal(aead cipher.AEAD, nonce, additionalData []byte) error {
	n := aead.Overhead()
	room := sealingRoom(n)
	h.Writable(room)
	h.end -= room - n
	h.seal(aead, n, nonce, additionalData)
	return nil
}

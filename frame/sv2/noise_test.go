package sv2_test

import (
	"testing"

	"github.com/millrace-io/millrace/frame/sv2"
)

// slowEncryptedLen takes chunks off one by one.
func slowEncryptedLen(n int) (sum int) {
	for ; n > 65519; n -= 65519 {
		sum += 65535
	}
	if n > 0 {
		sum += n + 16
	}
	return sum
}

func TestEncryptedLen(t *testing.T) {
	lengths := []int{0, 1, 2, 65518, 65519, 65520, 65535, 131037, 131038, 131039, 1<<24 - 2, 1<<24 - 1}
	for n := 0; n < 1<<24; n += 4099 {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		encrypted := sv2.EncryptedLen(n)
		if want := slowEncryptedLen(n); encrypted != want {
			t.Errorf("EncryptedLen(%d) is %d, want %d", n, encrypted, want)
		}
		if got, ok := sv2.PlainLen(encrypted); got != n || !ok {
			t.Errorf("PlainLen(%d) is %d, %v, want %d", encrypted, got, ok, n)
		}
	}
}

// PlainLen knows every length that there is, and no other.
func TestPlainLen(t *testing.T) {
	payload := 0
	for n := range 3 * 65535 {
		want := sv2.EncryptedLen(payload) == n
		got, ok := sv2.PlainLen(n)
		if ok != want || ok && got != payload || !ok && got != 0 {
			t.Fatalf("PlainLen(%d) is %d, %v, want %d, %v", n, got, ok, payload, want)
		}
		if ok {
			payload++
		}
	}
	if n, ok := sv2.PlainLen(-1); n != 0 || ok {
		t.Errorf("PlainLen(-1) is %d, %v", n, ok)
	}
}

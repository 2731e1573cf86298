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
		if got, want := sv2.EncryptedLen(n), slowEncryptedLen(n); got != want {
			t.Errorf("EncryptedLen(%d) is %d, want %d", n, got, want)
		}
	}
}

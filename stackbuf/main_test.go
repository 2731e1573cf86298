package stackbuf_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// narrow says that memory of almost math.MaxInt bytes is not out of the question, and to ask for it ends the process.
const narrow = strconv.IntSize == 32

// rounds is n, or a tenth of it when the tests are to be short.
func rounds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// text returns n bytes of which no two that are near each other are alike, so that what is out of its place shows.
func text(n int) string {
	if n > len(long) {
		return strings.Repeat(period, n/len(period)+1)[:n]
	}
	return long[:n]
}

var (
	long   = strings.Repeat(period, 30)
	period = func() string {
		var b strings.Builder
		const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-"
		for i := range digits {
			b.WriteString(digits[i:] + digits[:i])
		}
		return b.String()
	}()
)

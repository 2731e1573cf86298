package measure

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ReadMetrics reads metrics in the Prometheus text format into m. It adds up the values of a metric
// with different labels.
func ReadMetrics(r io.Reader, m map[string]int64) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if name == "#" {
			continue
		}
		name, _, _ = strings.Cut(name, "{") // no label value here contains a space
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("metrics: %q: %w", lines.Text(), err)
		}
		m[name] += int64(v)
	}
	return lines.Err()
}

package bytesize

import "testing"

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "4096": 4096,
		"1K": 1 << 10, "3m": 3 << 20, "2G": 2 << 30,
		"64KiB": 64 << 10, "16MiB": 16 << 20, "1gib": 1 << 30,
		"64kB": 64_000, "50MB": 50_000_000, "1GB": 1_000_000_000,
		"2TB": 2_000_000_000_000, "3T": 3 << 40, "1TiB": 1 << 40,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
		if again, err := Parse(Format(want)); err != nil || again != want {
			t.Errorf("%d is printed as %s", want, Format(want))
		}
	}
	for _, text := range []string{"", "K", "-1", "1P", "1.5M", "KiB5", "99999999999G", "1KMiB",
		"1iB"} {
		if n, err := Parse(text); err == nil {
			t.Errorf("%q was taken for %d", text, n)
		}
	}
}

// An Int works on machines with a 32-bit int.
func TestInt(t *testing.T) {
	var n Int
	if err := n.Set("1GiB"); err != nil || n.String() != "1GiB" {
		t.Errorf("Set: %v, the value is %v, want 1GiB", err, n)
	}
	if err := n.Set("2GiB"); err == nil {
		t.Error("2GiB fit 32 bits")
	}
}

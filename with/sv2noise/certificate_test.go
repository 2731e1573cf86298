package sv2noise

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var start = time.Unix(1_700_000_000, 0)

func mustSign(t testing.TB, authority *PrivateKey, static PublicKey,
	from, until time.Time) Certificate {
	t.Helper()
	c, err := Sign(authority, static, from, until)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCertificateIsValidForItsKeyAndTime(t *testing.T) {
	authority, static := GenerateKey(), GenerateKey().Public()
	end := start.Add(time.Hour)
	valid := mustSign(t, authority, static, start, end)
	if valid.ValidFrom() != start || valid.NotValidAfter() != end {
		t.Errorf("valid from %v until %v", valid.ValidFrom(), valid.NotValidAfter())
	}
	changed := func(i int) Certificate {
		c := valid
		c[i] ^= 1
		return c
	}
	tooLarge := valid // the signature's r is not below the field's prime
	copy(tooLarge[10:], strings.Repeat("\xff", 32))
	other := GenerateKey().Public()
	var noPoint PublicKey // x³+7 is not a square for x = 5
	noPoint[31] = 5
	for _, tt := range []struct {
		name              string
		c                 Certificate
		authority, static PublicKey
		now               time.Time
		want              error
	}{
		{"first second", valid, authority.Public(), static, start, nil},
		{"last second", valid, authority.Public(), static, end, nil},
		{"drift before", valid, authority.Public(), static, start.Add(-10 * time.Second), nil},
		{"drift after", valid, authority.Public(), static, end.Add(10 * time.Second), nil},
		{"too early", valid, authority.Public(), static, start.Add(-11 * time.Second), ErrTime},
		{"too late", valid, authority.Public(), static, end.Add(11 * time.Second), ErrTime},
		{"zero time", valid, authority.Public(), static, time.Time{}, ErrTime},
		{"other authority", valid, other, static, start, ErrSignature},
		{"other responder", valid, authority.Public(), other, start, ErrSignature},
		{"authority that is no point", valid, noPoint, static, start, ErrSignature},
		{"zero authority", valid, PublicKey{}, static, start, ErrSignature},
		{"version", changed(0), authority.Public(), static, start, ErrVersion},
		{"high byte of the version", changed(1), authority.Public(), static, start, ErrVersion},
		{"valid from", changed(2), authority.Public(), static, start, ErrSignature},
		{"not valid after", changed(9), authority.Public(), static, start, ErrSignature},
		{"r", changed(10), authority.Public(), static, start, ErrSignature},
		{"s", changed(73), authority.Public(), static, start, ErrSignature},
		{"r too large", tooLarge, authority.Public(), static, start, ErrSignature},
		{"nothing", Certificate{}, authority.Public(), static, start, ErrSignature},
		{"forged and too late", changed(9), authority.Public(), static, end.Add(time.Hour),
			ErrSignature},
	} {
		err := tt.c.Verify(tt.authority, tt.static, tt.now)
		if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if err == nil {
			continue
		}
		var e *CertificateError
		if !errors.As(err, &e) || e.Certificate != tt.c || e.Now != tt.now ||
			!strings.Contains(err.Error(), tt.want.Error()) {
			t.Errorf("%s: %#v", tt.name, err)
		}
	}
}

func TestTimesOfACertificateFitIntoIt(t *testing.T) {
	authority, static := GenerateKey(), GenerateKey().Public()
	last := time.Unix(1<<32-1, 0)
	c := mustSign(t, authority, static, time.Unix(0, 0), last)
	for _, now := range []time.Time{time.Unix(0, 0), last, last.Add(10 * time.Second)} {
		if err := c.Verify(authority.Public(), static, now); err != nil {
			t.Error(err)
		}
	}
	for _, period := range [][2]time.Time{
		{start, start.Add(-time.Second)},
		{time.Unix(-1, 0), start},
		{start, last.Add(time.Second)},
		{time.Time{}, start},
	} {
		if _, err := Sign(authority, static, period[0], period[1]); err == nil {
			t.Errorf("signed from %v until %v", period[0], period[1])
		}
	}
}

func TestSignedByUsesTheCurrentTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority, static := GenerateKey(), GenerateKey().Public()
		c := mustSign(t, authority, static, time.Now(), time.Now().Add(time.Hour))
		verify := SignedBy(authority.Public())
		time.Sleep(time.Hour + 10*time.Second)
		if err := verify(static, c); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if err := verify(static, c); !errors.Is(err, ErrTime) {
			t.Errorf("%v, want ErrTime", err)
		}
	})
}

//go:build !race

package disktest

const race = false

package hook

import (
	"os/exec"
	"testing"
)

func BenchmarkRunTrue(b *testing.B) {
	r, err := NewRunner(Options{TempDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	run := Run{File: File{Name: "true", Path: "/bin/true"}, Context: []byte(`[{"binding":"onStartup"}]`), Values: []byte("{}"), ConfigValues: []byte("{}")}
	for b.Loop() {
		if _, err := r.Run(b.Context(), run); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBareTrue measures os/exec alone. The difference from BenchmarkRunTrue is the cost of a
// run.
func BenchmarkBareTrue(b *testing.B) {
	for b.Loop() {
		if err := exec.CommandContext(b.Context(), "/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

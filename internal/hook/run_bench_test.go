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

// BenchmarkBareTrue measures a run of /bin/true with os/exec. The difference between BenchmarkRunTrue and
// BenchmarkBareTrue is the cost of the runner.
func BenchmarkBareTrue(b *testing.B) {
	for b.Loop() {
		if err := exec.CommandContext(b.Context(), "/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

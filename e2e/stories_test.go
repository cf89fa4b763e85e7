// Package e2e_test tests the whole operator with the scripts in testdata. Each script starts the real program with a
// real API server. Package story runs the scripts.
package e2e_test

import (
	"testing"

	"addon-operator/e2e/story"
)

func TestMain(m *testing.M) { story.Main(m) }

func TestStories(t *testing.T) { story.Run(t, "testdata") }

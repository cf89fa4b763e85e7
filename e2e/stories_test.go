// Package e2e_test runs stories of the whole operator. The scripts in testdata start the real program with a real API
// server.
package e2e_test

import (
	"testing"

	"addon-operator/e2e/story"
)

func TestMain(m *testing.M) { story.Main(m) }

func TestStories(t *testing.T) { story.Run(t, "testdata") }

// Package e2e_test tells stories of the whole operator: the scripts in testdata
// start the real program against a real API server.
package e2e_test

import (
	"testing"

	"addon-operator/e2e/story"
)

func TestMain(m *testing.M) { story.Main(m) }

func TestStories(t *testing.T) { story.Run(t, "testdata") }

// Package crds installs the CustomResourceDefinitions of modules before the modules run.
package crds

// Package configmap puts new content of the operator's ConfigMap in force, and finds out which modules it
// affects.
package configmap

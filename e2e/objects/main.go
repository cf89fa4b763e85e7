// Command objects reads and changes objects of a cluster where there is no kubectl: what make run and the documents need
// and no more.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"
)

// fieldManager is who the API server notes as the owner of fields that this program sets.
const fieldManager = "objects"

func main() {
	klog.SetLogger(logr.Discard()) // errors of requests are returned
	if err := newRoot().ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "objects:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	var c cluster
	root := &cobra.Command{
		Use: "objects", Short: "Read and change objects of a cluster", SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return c.connect() },
	}
	kubeconfig := ".run/cluster/kubeconfig"
	if set := os.Getenv("KUBECONFIG"); set != "" {
		kubeconfig = set
	}
	root.PersistentFlags().StringVar(&c.kubeconfig, "kubeconfig", kubeconfig, "kubeconfig file [$KUBECONFIG]")
	root.PersistentFlags().StringVarP(&c.namespace, "namespace", "n", "addon-operator", "namespace of objects that name none")
	verb := func(use, short string, args cobra.PositionalArgs, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
		v := &cobra.Command{Use: use, Short: short, Args: args, RunE: run}
		root.AddCommand(v)
		return v
	}
	verb("apply FILE...", "Apply the objects in the files, server-side", cobra.MinimumNArgs(1), c.files(c.apply))
	verb("create FILE...", "Create those objects in the files that are not there", cobra.MinimumNArgs(1), c.files(c.create))
	get := verb("get KIND [NAME]", "Print an object, or the names of all in the namespace", cobra.RangeArgs(1, 2), c.get)
	get.Flags().StringVarP(&c.selector, "selector", "l", "", "only those with these labels")
	verb("set CONFIGMAP KEY=VALUE... KEY-...", "Set or remove keys of a ConfigMap", cobra.MinimumNArgs(2), c.set)
	verb("delete KIND NAME", "Delete an object", cobra.ExactArgs(2), c.delete)
	verb("address", "Print the address of this machine on the way to the API server", cobra.NoArgs, c.address)
	return root
}

// files returns a verb that does each with every object in the files.
func (c *cluster) files(each func(context.Context, *unstructured.Unstructured) (string, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, paths []string) error {
		for _, path := range paths {
			objects, err := readFile(path)
			if err != nil {
				return err
			}
			for _, o := range objects {
				done, err := each(cmd.Context(), o)
				if err != nil {
					return fmt.Errorf("%s: %s %s: %w", path, o.GetKind(), o.GetName(), err)
				}
				_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s %s %s\n", o.GetKind(), o.GetName(), done)
			}
		}
		return nil
	}
}

// readFile returns the objects in a file of YAML documents.
func readFile(path string) ([]*unstructured.Unstructured, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

func (c *cluster) apply(ctx context.Context, o *unstructured.Unstructured) (string, error) {
	client, err := c.of(o)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	force := true
	_, err = client.Patch(ctx, o.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{
		FieldManager: fieldManager, Force: &force, FieldValidation: metav1.FieldValidationStrict,
	})
	return "applied", err
}

func (c *cluster) create(ctx context.Context, o *unstructured.Unstructured) (string, error) {
	client, err := c.of(o)
	if err != nil {
		return "", err
	}
	_, err = client.Create(ctx, o, metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict})
	if apierrors.IsAlreadyExists(err) {
		return "is there", nil
	}
	return "created", err
}

func (c *cluster) get(cmd *cobra.Command, args []string) error {
	client, err := c.named(args[0])
	if err != nil {
		return err
	}
	if len(args) == 1 {
		list, err := client.List(cmd.Context(), metav1.ListOptions{LabelSelector: c.selector})
		if err != nil {
			return err
		}
		for _, o := range list.Items {
			_, _ = fmt.Fprintln(cmd.OutOrStdout(), o.GetName())
		}
		return nil
	}
	o, err := client.Get(cmd.Context(), args[1], metav1.GetOptions{})
	if err != nil {
		return err
	}
	o.SetManagedFields(nil)
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}

func (c *cluster) set(cmd *cobra.Command, args []string) error {
	client, err := c.named("configmaps")
	if err != nil {
		return err
	}
	data := map[string]any{}
	for _, pair := range args[1:] {
		key, value, ok := strings.Cut(pair, "=")
		switch {
		case ok:
			data[key] = value
		case strings.HasSuffix(key, "-"):
			data[strings.TrimSuffix(key, "-")] = nil
		default:
			return fmt.Errorf("%q is neither KEY=VALUE nor KEY-", pair)
		}
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return err
	}
	_, err = client.Patch(cmd.Context(), args[0], types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

func (c *cluster) delete(cmd *cobra.Command, args []string) error {
	client, err := c.named(args[0])
	if err != nil {
		return err
	}
	return client.Delete(cmd.Context(), args[1], metav1.DeleteOptions{})
}

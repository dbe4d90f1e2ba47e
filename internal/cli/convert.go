// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"miracle.dev/scaledjob-operator/internal/cli/convert"
	"miracle.dev/scaledjob-operator/internal/cli/layout"
)

// source is where convert takes its objects from.
type source struct {
	files         []string
	fromCluster   bool
	allNamespaces bool
}

func (a *app) convertCommand() *cobra.Command {
	var from source
	cmd := &cobra.Command{
		Use:   "convert -f FILE | --from-cluster [NAME...]",
		Short: "Convert ScaledJobs of KEDA",
		Long: "Convert ScaledJobs of KEDA with Redis lists or streams as triggers, and print them as YAML, suspended. A comment is at each\n" +
			"field whose meaning differs. The input may have other objects too: TriggerAuthentications, and the Secrets and ConfigMaps that\n" +
			"the triggers refer to. Passwords and keys are not printed.\n\n" +
			"The exit code is 2 if something could not be converted. It is listed on standard error, and in the comments.",
		Example: "  kubectl scaledjob convert -f keda.yaml > scaledjob.yaml\n  kubectl scaledjob convert --from-cluster -n media",
		RunE: func(cmd *cobra.Command, names []string) error {
			switch {
			case from.fromCluster == (len(from.files) > 0):
				return say("Say what to convert: either -f with a file, a folder or - for standard input, or --from-cluster.")
			case len(names) > 0 && !from.fromCluster:
				return say("Names are for --from-cluster. Name files with -f.")
			case len(names) > 0 && from.allNamespaces:
				return say("Use either names or -A.")
			}
			return a.convert(cmd.Context(), &from, names)
		},
	}
	cmd.Flags().StringArrayVarP(&from.files, "filename", "f", nil, "A file, a folder with files, or - for standard input")
	cmd.Flags().BoolVar(&from.fromCluster, "from-cluster", false, "Read KEDA's ScaledJobs, and what they refer to, from the cluster")
	cmd.Flags().BoolVarP(&from.allNamespaces, "all-namespaces", "A", false, "With --from-cluster: those of all namespaces")
	return cmd
}

func (a *app) convert(ctx context.Context, from *source, names []string) error {
	result, err := a.converted(ctx, from, names)
	if err != nil {
		return err
	}
	if len(result.Manifests) == 0 && len(result.Unmapped) == 0 {
		return say("There are no ScaledJobs of KEDA in the input.")
	}
	if _, err := fmt.Fprint(a.Out, strings.Join(result.Manifests, "---\n")); err != nil {
		return err
	}
	return a.reportUnmapped(&result)
}

// reportUnmapped lists what was not converted.
func (a *app) reportUnmapped(result *convert.Result) error {
	width := widthOf(a.ErrOut)
	if n := len(result.Ignored); n > 0 {
		text := fmt.Sprintf("Ignored, because no ScaledJob refers to it: %s.", strings.Join(result.Ignored, ", "))
		if _, err := fmt.Fprint(a.ErrOut, layout.Hanging("", text, width)); err != nil {
			return err
		}
	}
	if len(result.Unmapped) == 0 {
		return nil
	}
	if _, err := fmt.Fprint(a.ErrOut, unmapped(result.Unmapped, width)); err != nil {
		return err
	}
	return &userError{code: exitUnmapped}
}

// unmapped lists what was not converted, below the ScaledJob that it belongs to.
func unmapped(findings []convert.Finding, width int) string {
	var text strings.Builder
	before := ""
	for _, each := range findings {
		if object := each.Object + " (" + each.Source + ")"; object != before {
			text.WriteString(layout.Printable("Not converted of " + object + ":\n"))
			before = object
		}
		text.WriteString(layout.Hanging(layout.Indent+"- ", each.Field+": "+each.Text, width))
	}
	return text.String()
}

// converted reads the objects and converts them.
func (a *app) converted(ctx context.Context, from *source, names []string) (convert.Result, error) {
	if !from.fromCluster {
		objects, err := a.readFiles(ctx, from.files)
		if err != nil {
			return convert.Result{}, err
		}
		return convert.Convert(objects), nil
	}
	api, err := a.connect(a.flags)
	if err != nil {
		return convert.Result{}, err
	}
	namespace := api.namespace
	if from.allNamespaces {
		namespace = ""
	}
	objects, err := api.kedaScaledJobs(ctx, namespace, names)
	if err != nil {
		return convert.Result{}, err
	}
	return api.convertAll(ctx, objects)
}

// readFiles reads the objects of files and folders.
func (a *app) readFiles(ctx context.Context, paths []string) ([]convert.Object, error) {
	var objects []convert.Object
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			content, err := a.readFile(ctx, file)
			if err != nil {
				return nil, err
			}
			found, err := convert.Parse(file, content)
			if err != nil {
				return nil, err
			}
			objects = append(objects, found...)
		}
	}
	return objects, nil
}

func (a *app) readFile(ctx context.Context, path string) ([]byte, error) {
	if path == "-" {
		return a.readInput(ctx)
	}
	return os.ReadFile(path) //nolint:gosec // The user names the file.
}

// readInput reads standard input. Nothing ends a read of a terminal, so an interrupted command does not wait for it.
func (a *app) readInput(ctx context.Context) ([]byte, error) {
	var content []byte
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		content, err = io.ReadAll(a.In)
	}()
	select {
	case <-done:
		return content, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// filesOf returns the manifests in a folder and those below it, by name, or the file that the path itself is.
func filesOf(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)) {
			files = append(files, file)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = say("There is no manifest in %s. Their names end in .yaml, .yml or .json.", path)
	}
	return files, err
}

// kedaScaledJob is the kind of KEDA's ScaledJobs.
var kedaScaledJob = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledJob"}

// kedaScaledJobs reads KEDA's ScaledJobs: those with these names, or all of the namespace.
func (c *cluster) kedaScaledJobs(ctx context.Context, namespace string, names []string) ([]convert.Object, error) {
	var objects []convert.Object
	for _, name := range names {
		object, err := c.read(ctx, kedaScaledJob, namespace, name)
		if err != nil {
			return nil, kedaError(err, namespace, name)
		}
		objects = append(objects, object...)
	}
	if len(names) > 0 {
		return objects, nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kedaScaledJob.GroupVersion().WithKind("ScaledJobList"))
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, kedaError(err, namespace, "")
	}
	for i := range list.Items {
		object, err := parsed(&list.Items[i])
		if err != nil {
			return nil, err
		}
		objects = append(objects, object...)
	}
	return objects, nil
}

// kedaError says which object of KEDA there is not.
func kedaError(err error, namespace, name string) error {
	switch {
	case apimeta.IsNoMatchError(err):
		return say("This cluster has no ScaledJobs of KEDA. Choose another cluster with --context, or convert files with -f.")
	case apierrors.IsNotFound(err) && name != "":
		return say("There is no ScaledJob %q of KEDA in namespace %q. See those that exist with: kubectl get scaledjobs.keda.sh", name, namespace)
	}
	return err
}

// kinds are those of what KEDA's ScaledJobs refer to.
var kinds = map[string]schema.GroupVersionKind{
	"TriggerAuthentication":        kedaScaledJob.GroupVersion().WithKind("TriggerAuthentication"),
	"ClusterTriggerAuthentication": kedaScaledJob.GroupVersion().WithKind("ClusterTriggerAuthentication"),
	"Secret":                       {Version: "v1", Kind: "Secret"},
	"ConfigMap":                    {Version: "v1", Kind: "ConfigMap"},
}

// convertAll converts the objects, and reads what they refer to as far as it exists and the user may read it. What it
// reads may refer to more.
func (c *cluster) convertAll(ctx context.Context, objects []convert.Object) (convert.Result, error) {
	asked := map[convert.Reference]bool{}
	for {
		result := convert.Convert(objects)
		before := len(asked)
		for _, wanted := range result.Wanted {
			kind, known := kinds[wanted.Kind]
			if !known || asked[wanted] {
				continue
			}
			asked[wanted] = true
			found, err := c.read(ctx, kind, wanted.Namespace, wanted.Name)
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
				return convert.Result{}, err
			}
			objects = append(objects, found...)
		}
		if len(asked) == before {
			return result, nil
		}
	}
}

func (c *cluster) read(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) ([]convert.Object, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		return nil, err
	}
	return parsed(object)
}

// parsed returns an object of the cluster as if it had been in a manifest.
func parsed(object *unstructured.Unstructured) ([]convert.Object, error) {
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(object.Object, "status")
	manifest, err := yaml.Marshal(object.Object)
	if err != nil {
		return nil, errors.Join(errors.New("an object of the cluster can't be read"), err)
	}
	objects, err := convert.Parse("cluster", manifest)
	for i := range objects {
		objects[i].Source = "cluster" // Nobody sees the lines.
	}
	return objects, err
}

package components

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// builtins are the functions that need nothing but their arguments. Their errors never
// show these: they may be secret.
var builtins = map[string]func(args any, budget *int) (any, error){
	"str_replace":         strReplace(false, false),
	"str_replace_strict":  strReplace(true, false),
	"str_replace_vstrict": strReplace(true, true),
	"str_split":           strSplit,
	"list_join":           listJoin,
	"list_concat":         listConcat(false),
	"list_concat_unique":  listConcat(true),
	"repeat":              repeat,
	"map_merge":           mapMerge,
	"map_replace":         mapReplace,
	"digest":              digest,
	"equals":              equals,
	"contains":            contains,
	"filter":              filter,
	"make_url":            makeURL,
	"Fn::Join":            listJoin,
	"Fn::Split":           strSplit,
	"Fn::Select":          fnSelect,
	"Fn::Replace":         fnReplace,
	"Fn::Base64":          func(args any, _ *int) (any, error) { return args, nil }, // Heat does not encode, either
	selectPath:            func(args any, _ *int) (any, error) { return selected(args) },
	asType:                func(args any, _ *int) (any, error) { return typed(args) },
}

// apply calls a builtin, and charges what comes out to the budget.
func apply(fn string, args any, budget *int) (any, error) {
	f, ok := builtins[fn]
	if !ok {
		return nil, fmt.Errorf("there is no function %s", fn)
	}
	v, err := f(args, budget)
	if err == nil {
		err = charge(budget, weigh(v, *budget))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", fn, err)
	}
	return v, nil
}

func charge(budget *int, n int) error {
	if *budget -= n; *budget < 0 {
		*budget = 0
		return errTooLarge
	}
	return nil
}

func wantList(v any, what string) ([]any, error) {
	if l, ok := v.([]any); ok {
		return l, nil
	}
	return nil, fmt.Errorf("want %s as a list, got %s", what, kindOf(v))
}

func wantMap(v any, what string) (map[string]any, error) {
	switch m := v.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return m, nil
	}
	return nil, fmt.Errorf("want %s as a map, got %s", what, kindOf(v))
}

func wantText(v any, what string) (string, error) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	return "", fmt.Errorf("want %s as text, got %s", what, kindOf(v))
}

// pair returns the two arguments of a function that has as many.
func pair(args any) (a, b any, err error) {
	l, ok := args.([]any)
	if !ok || len(l) != 2 {
		return nil, nil, errors.New("want a list of two")
	}
	return l[0], l[1], nil
}

func strReplace(strict, notEmpty bool) func(any, *int) (any, error) {
	return func(args any, budget *int) (any, error) {
		m, ok := args.(map[string]any)
		if _, has := m["params"]; !ok || !has {
			return nil, errors.New("want a map with template and params")
		}
		template, err := wantText(m["template"], "the template")
		if err != nil {
			return nil, err
		}
		params, err := wantMap(m["params"], "params")
		if err != nil {
			return nil, err
		}
		text, missed, err := replaceAll(template, params, budget)
		if strict && missed && err == nil {
			err = errors.New("some of params do not stand in the template")
		}
		for _, v := range params {
			if notEmpty && err == nil && textOf(v) == "" {
				err = errors.New("some of params are empty")
			}
		}
		return text, err
	}
}

// replaceAll replaces the longest keys first, and never what it put in. It reports
// whether some key was not there.
func replaceAll(template string, params map[string]any, budget *int) (text string, missed bool, err error) {
	keys := make([]string, 0, len(params))
	for k := range params {
		if k == "" {
			return "", false, errors.New("one of params has no name")
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	found := make([]bool, len(keys))
	var b strings.Builder
	var put func(s string, i int) error
	put = func(s string, i int) error {
		for ; i < len(keys); i++ {
			if err := charge(budget, len(s)/64); err != nil {
				return err
			}
			if !strings.Contains(s, keys[i]) {
				continue
			}
			found[i] = true
			value := textOf(params[keys[i]])
			for n, part := range strings.Split(s, keys[i]) {
				if n > 0 {
					if err := charge(budget, len(value)); err != nil {
						return err
					}
					b.WriteString(value)
				}
				if err := put(part, i+1); err != nil {
					return err
				}
			}
			return nil
		}
		b.WriteString(s)
		return nil
	}
	err = put(template, 0)
	return b.String(), slices.Contains(found, false), err
}

// fnReplace is str_replace as it was: [params, template].
func fnReplace(args any, budget *int) (any, error) {
	params, template, err := pair(args)
	if err != nil {
		return nil, err
	}
	return strReplace(false, false)(map[string]any{"params": params, "template": template}, budget)
}

func strSplit(args any, _ *int) (any, error) {
	l, ok := args.([]any)
	if !ok || len(l) < 2 || len(l) > 3 {
		return nil, errors.New("want a list of a delimiter, text and, perhaps, an index")
	}
	if l[1] == nil {
		return nil, nil
	}
	delimiter, err := wantText(l[0], "the delimiter")
	if err != nil {
		return nil, err
	}
	text, err := wantText(l[1], "what is to be split")
	if err != nil {
		return nil, err
	}
	if delimiter == "" {
		return nil, errors.New("the delimiter is empty")
	}
	var list []any
	for part := range strings.SplitSeq(text, delimiter) {
		list = append(list, part)
	}
	if len(l) == 2 {
		return list, nil
	}
	return item(list, l[2])
}

func item(list []any, index any) (any, error) {
	n, err := strconv.Atoi(textOf(index))
	if n < 0 {
		n += len(list)
	}
	if err != nil || n < 0 || n >= len(list) {
		return nil, fmt.Errorf("want an index of 0 to %d", len(list)-1)
	}
	return list[n], nil
}

func listJoin(args any, _ *int) (any, error) {
	l, ok := args.([]any)
	if !ok || len(l) < 2 {
		return nil, errors.New("want a list of a delimiter and lists")
	}
	delimiter, err := wantText(l[0], "the delimiter")
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, v := range l[1:] {
		if v == nil || v == "" {
			continue
		}
		items, err := wantList(v, "what is to be joined")
		if err != nil {
			return nil, err
		}
		for _, e := range items {
			texts = append(texts, textOf(e))
		}
	}
	return strings.Join(texts, delimiter), nil
}

func listConcat(unique bool) func(any, *int) (any, error) {
	return func(args any, _ *int) (any, error) {
		l, err := wantList(args, "the lists")
		if err != nil {
			return nil, err
		}
		all := []any{}
		seen := map[string]bool{}
		for _, v := range l {
			if v == nil {
				continue
			}
			items, err := wantList(v, "each item")
			if err != nil {
				return nil, err
			}
			for _, e := range items {
				if unique {
					key := sameKey(e)
					if seen[key] {
						continue
					}
					seen[key] = true
				}
				all = append(all, e)
			}
		}
		return all, nil
	}
}

// sameKey is the same for values that are equal.
func sameKey(v any) string {
	return string(encode(normalize(v)))
}

func repeat(args any, budget *int) (any, error) {
	m, ok := args.(map[string]any)
	if _, has := m["template"]; !ok || !has {
		return nil, errors.New("want a map with template and for_each")
	}
	each, ok := m["for_each"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want for_each as a map, got %s", kindOf(m["for_each"]))
	}
	product := true
	if p, ok := m["permutations"]; ok {
		if product, ok = p.(bool); !ok {
			return nil, fmt.Errorf("want permutations as a boolean, got %s", kindOf(p))
		}
	}
	keys := sortedKeys(each)
	lists := make([][]any, len(keys))
	rows := 1
	for i, k := range keys {
		switch v := each[k].(type) {
		case nil:
		case []any:
			lists[i] = v
		case map[string]any:
			if !product {
				return nil, errors.New("without permutations, for_each wants lists")
			}
			for _, name := range sortedKeys(v) {
				lists[i] = append(lists[i], name)
			}
		default:
			return nil, fmt.Errorf("for_each wants lists or maps, got %s", kindOf(v))
		}
		if product {
			if rows *= len(lists[i]); rows > *budget/nodeWeight {
				return nil, errTooLarge
			}
		} else if rows = len(lists[i]); rows != len(lists[0]) {
			return nil, errors.New("without permutations, the lists of for_each have to be equally long")
		}
	}
	if len(keys) == 0 {
		rows = 0
	}
	result := make([]any, rows)
	for row := range result {
		values := make([]string, len(keys))
		n := row
		for i := len(keys) - 1; i >= 0; i-- { // the last one changes fastest
			index := row
			if product {
				index = n % len(lists[i])
				n /= len(lists[i])
			}
			values[i] = textOf(lists[i][index])
		}
		result[row] = mapText(m["template"], func(s string) string {
			for i, k := range keys {
				if k != "" {
					s = strings.ReplaceAll(s, k, values[i])
				}
			}
			return s
		})
		if err := charge(budget, weigh(result[row], *budget)); err != nil {
			return nil, err
		}
	}
	return result, nil
}

func mapMerge(args any, _ *int) (any, error) {
	l, err := wantList(args, "the maps")
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	for _, v := range l {
		m, err := wantMap(v, "each item")
		if err != nil {
			return nil, err
		}
		for k, e := range m {
			all[k] = e
		}
	}
	return all, nil
}

func mapReplace(args any, _ *int) (any, error) {
	in, by, err := pair(args)
	if err != nil {
		return nil, err
	}
	input, err := wantMap(in, "the first")
	if err != nil {
		return nil, err
	}
	how, ok := by.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want a map with keys and values, got %s", kindOf(by))
	}
	for k := range how {
		if k != "keys" && k != "values" {
			return nil, errors.New("want keys and values alone")
		}
	}
	keys, err := wantMap(how["keys"], "keys")
	if err != nil {
		return nil, err
	}
	values, err := wantMap(how["values"], "values")
	if err != nil {
		return nil, err
	}
	out := make(map[string]any, len(input))
	for k, v := range input {
		name := k
		if to, ok := keys[k]; ok && to != nil {
			name = textOf(to)
		}
		_, inInput := input[name]
		_, inOutput := out[name]
		if name != k && inInput || inOutput {
			return nil, errors.New("a replaced key is there already")
		}
		switch v.(type) {
		case []any, map[string]any, nil:
		default:
			if to, ok := values[textOf(v)]; ok {
				v = to
			}
		}
		out[name] = v
	}
	return out, nil
}

func digest(args any, _ *int) (any, error) {
	a, b, err := pair(args)
	if err != nil {
		return nil, err
	}
	algorithm, err := wantText(a, "the algorithm")
	if err != nil {
		return nil, err
	}
	text, err := wantText(b, "the value")
	if err != nil {
		return nil, err
	}
	var sum []byte
	switch data := []byte(text); strings.ToLower(algorithm) {
	case "md5":
		s := md5.Sum(data)
		sum = s[:]
	case "sha1":
		s := sha1.Sum(data)
		sum = s[:]
	case "sha224":
		s := sha256.Sum224(data)
		sum = s[:]
	case "sha256":
		s := sha256.Sum256(data)
		sum = s[:]
	case "sha384":
		s := sha512.Sum384(data)
		sum = s[:]
	case "sha512":
		s := sha512.Sum512(data)
		sum = s[:]
	default:
		return nil, errors.New("want md5, sha1, sha224, sha256, sha384 or sha512")
	}
	return hex.EncodeToString(sum), nil
}

func equals(args any, _ *int) (any, error) {
	a, b, err := pair(args)
	return equal(a, b), err
}

func contains(args any, _ *int) (any, error) {
	v, in, err := pair(args)
	if err != nil {
		return nil, err
	}
	if text, ok := in.(string); ok {
		part, err := wantText(v, "what is looked for in text")
		return strings.Contains(text, part), err
	}
	list, err := wantList(in, "the second")
	return slices.ContainsFunc(list, func(e any) bool { return equal(e, v) }), err
}

func filter(args any, _ *int) (any, error) {
	without, from, err := pair(args)
	if err != nil || from == nil {
		return nil, err
	}
	list, err := wantList(from, "the second")
	if err != nil || without == nil {
		return list, err
	}
	drop, err := wantList(without, "the first")
	if err != nil {
		return nil, err
	}
	dropped := map[string]bool{}
	for _, e := range drop {
		dropped[sameKey(e)] = true
	}
	kept := []any{}
	for _, e := range list {
		if !dropped[sameKey(e)] {
			kept = append(kept, e)
		}
	}
	return kept, nil
}

func fnSelect(args any, _ *int) (any, error) {
	index, from, err := pair(args)
	if err != nil {
		return nil, err
	}
	return at(from, []any{index}), nil
}

// selected follows a path into what was pending when the plan was made.
func selected(args any) (any, error) {
	l, ok := args.([]any)
	if !ok || len(l) == 0 {
		return nil, errors.New("want a value and a path")
	}
	return at(l[0], l[1:]), nil
}

// typed makes a value one of a type, once it is known; nothing stays nothing.
func typed(args any) (any, error) {
	typ, v, err := pair(args)
	if err != nil || v == nil {
		return nil, err
	}
	return coerce(textOf(typ), v)
}

// lateType has a pending value made one of a type when it is known. As text it may stay
// what it is: that may be a reference, and is to remain one.
func lateType(typ string, v any) any {
	if p, ok := v.(*pending); ok && typ != "string" && typ != "" {
		return &pending{asType, []any{typ, p}}
	}
	return v
}

func makeURL(args any, _ *int) (any, error) {
	m, ok := args.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want a map, got %s", kindOf(args))
	}
	part := map[string]string{}
	for k, v := range m {
		switch k {
		case "scheme", "username", "password", "host", "path", "fragment":
			if _, isText := v.(string); !isText && v != nil {
				return nil, fmt.Errorf("want %s as text, got %s", k, kindOf(v))
			}
		case "port":
			if n, err := strconv.Atoi(textOf(v)); err != nil || n < 1 || n > 65535 {
				return nil, errors.New("want a port of 1 to 65535")
			}
		case "query":
			continue
		default:
			return nil, errors.New("want scheme, username, password, host, port, path, query and fragment alone")
		}
		part[k] = textOf(v)
	}
	if strings.Contains(part["scheme"], ":") {
		return nil, errors.New("want the scheme without a colon")
	}
	query, err := wantMap(m["query"], "query")
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: part["scheme"], Path: part["path"], Fragment: part["fragment"]}
	u.Host = strings.TrimSuffix(strings.TrimPrefix(part["host"], "["), "]")
	if strings.Contains(u.Host, ":") {
		u.Host = "[" + u.Host + "]"
	}
	if part["port"] != "" {
		u.Host += ":" + part["port"]
	}
	if part["password"] != "" {
		u.User = url.UserPassword(part["username"], part["password"])
	} else if part["username"] != "" {
		u.User = url.User(part["username"])
	}
	values := url.Values{}
	for k, v := range query {
		values.Set(k, textOf(v))
	}
	u.RawQuery = strings.ReplaceAll(values.Encode(), "%2F", "/")
	return u.String(), nil
}

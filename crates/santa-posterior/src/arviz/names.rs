//! Which names are elements of one array.

use std::collections::BTreeMap;
use std::ops::Range;

/// A variable of the store.
pub(super) struct Variable {
    /// Its name.
    pub name: String,
    /// The quantities that are its elements, the last index fastest.
    pub places: Vec<usize>,
    /// The indices along each dimension of its own; none for a scalar.
    pub axes: Vec<Range<usize>>,
}

/// The variables of these names, in the order of their first elements.
pub(super) fn variables(names: &[String]) -> Vec<Variable> {
    let mut stems: BTreeMap<&str, Vec<(Vec<usize>, usize)>> = BTreeMap::new();
    for (place, name) in names.iter().enumerate() {
        if let Some((stem, index)) = indexed(name) {
            stems.entry(stem).or_default().push((index, place));
        }
    }
    let mut variables: Vec<Variable> = stems
        .into_iter()
        .filter(|(stem, _)| !names.iter().any(|name| name == stem))
        .filter_map(|(stem, elements)| whole(stem, elements))
        .collect();
    let mut taken = vec![false; names.len()];
    variables.iter().flat_map(|variable| &variable.places).for_each(|place| taken[*place] = true);
    let scalars = names.iter().enumerate().filter(|(place, _)| !taken[*place]);
    variables.extend(scalars.map(|(place, name)| Variable {
        name: name.clone(),
        places: vec![place],
        axes: Vec::new(),
    }));
    variables.sort_by_key(|variable| variable.places.iter().min().copied());
    variables
}

/// Stem and index of `beta[3]`, `w[0,2]`, `w.2` or `w.0.2`.
fn indexed(name: &str) -> Option<(&str, Vec<usize>)> {
    let (stem, index) = if let Some(inside) = name.strip_suffix(']') {
        let (stem, index) = inside.split_once('[')?;
        (stem, index.split(',').map(|i| digits(i.trim())).collect::<Option<Vec<_>>>()?)
    } else {
        let mut index: Vec<usize> = name.rsplit('.').map_while(digits).collect();
        index.reverse();
        let stem = name.rsplitn(index.len() + 1, '.').nth(index.len())?;
        (stem, index)
    };
    (!stem.is_empty() && !index.is_empty()).then_some((stem, index))
}

/// A number as it would be printed: `01` is a name.
fn digits(text: &str) -> Option<usize> {
    let number: usize = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// The array, if the indices are those of a whole one.
fn whole(stem: &str, mut elements: Vec<(Vec<usize>, usize)>) -> Option<Variable> {
    elements.sort_unstable();
    let first = &elements[0].0;
    let last = &elements[elements.len() - 1].0;
    let origin = first[0];
    let like_the_first = |index: &[usize]| index.len() == first.len();
    if elements.len() < 2
        || origin > 1
        || first.iter().any(|i| *i != origin)
        || !elements.iter().all(|(index, _)| like_the_first(index))
    {
        return None;
    }
    let axes: Vec<Range<usize>> =
        last.iter().map(|end| Some(origin..end.checked_add(1)?)).collect::<Option<_>>()?;
    // In order, of this number, and each where it belongs: no index is missing or double.
    let size = axes.iter().try_fold(1usize, |size, axis| size.checked_mul(axis.len()))?;
    let belongs = |(place, (index, _)): (usize, &(Vec<usize>, usize))| {
        let flat =
            || index.iter().zip(&axes).fold(0, |flat, (i, axis)| flat * axis.len() + i - origin);
        index.iter().zip(&axes).all(|(i, axis)| axis.contains(i)) && flat() == place
    };
    if size != elements.len() || !elements.iter().enumerate().all(belongs) {
        return None;
    }
    let places = elements.into_iter().map(|(_, place)| place).collect();
    Some(Variable { name: stem.to_string(), places, axes })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and shapes.
    fn shapes(names: &[&str]) -> Vec<(String, Vec<usize>)> {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        variables(&names)
            .into_iter()
            .map(|v| (v.name, v.axes.iter().map(ExactSizeIterator::len).collect()))
            .collect()
    }
    fn scalars(names: &[&str]) {
        let expected: Vec<_> = names.iter().map(|name| (name.to_string(), vec![])).collect();
        assert_eq!(shapes(names), expected);
    }

    #[test]
    fn whole_ranges_of_indices_become_arrays() {
        let array = |name: &str, shape: &[usize]| (name.to_string(), shape.to_vec());
        assert_eq!(
            shapes(&["mu", "beta[0]", "beta[1]", "beta[2]", "w.1", "w.2"]),
            [array("mu", &[]), array("beta", &[3]), array("w", &[2])]
        );
        assert_eq!(shapes(&["w[0,0]", "w[0,1]", "w[1,0]", "w[1, 1]"]), [array("w", &[2, 2])]);
        assert_eq!(shapes(&["net.0.0", "net.0.1"]), [array("net", &[1, 2])]);
        let twelve: Vec<String> = (0..12).map(|i| format!("x.{i}")).collect();
        let twelve: Vec<&str> = twelve.iter().map(String::as_str).collect();
        assert_eq!(shapes(&twelve), [array("x", &[12])]);
    }

    #[test]
    fn elements_are_found_whatever_their_order() {
        let names = ["b[1]", "a", "b[0]"].map(String::from);
        let found = variables(&names);
        assert_eq!((found[0].name.as_str(), &found[0].places[..]), ("b", &[2, 0][..]));
        assert_eq!((found[1].name.as_str(), &found[1].places[..]), ("a", &[1][..]));
    }

    #[test]
    fn what_is_not_whole_stays_as_it_is() {
        scalars(&["beta[0]", "beta[2]"]);
        scalars(&["beta[2]", "beta[3]"]);
        scalars(&["w.1"]);
        scalars(&["w[0,0]", "w[1,1]"]);
        scalars(&["w[0]", "w[0,1]"]);
        scalars(&["w[0]", "w.0", "w[1]"]);
        scalars(&["w", "w[0]", "w[1]"]);
        scalars(&["w[00]", "w[01]"]);
        scalars(&["w[1,1]", "w[1,2]", "w[2,0]", "w[2,2]"]);
        scalars(&["w.0", "w.18446744073709551615", "w.18446744073709551616"]);
        scalars(&["[0]", "[1]", "0", "1", "a]", "a[]", "b.", "v1.5x"]);
    }
}

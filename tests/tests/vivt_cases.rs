//! Every expectation of the cases on bare pages, on every machine that the case names.

mod common;

use lab::case;

#[test]
fn every_expectation_of_the_vivt_cases_is_met() {
    let folder = common::here("cases/vivt");
    let mut unmet = String::new();
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|f| f.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "kdl"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let case = case::read(&file).unwrap_or_else(|e| panic!("{e}"));
        for machine in &case.machines {
            let profile = common::profile(machine, &folder);
            for expected in &case.expectations {
                let policy = common::policy(&expected.policy);
                let row = case::run_one(&case, profile.clone(), policy);
                let met = match expected.kind {
                    None => row.verdicts.clean(),
                    Some(kind) => row.verdicts.of(kind) > 0,
                };
                if !met {
                    let wanted = expected.kind.map_or("clean", |k| k.name());
                    let found = common::told(&row.verdicts.first);
                    let name = file.file_name().unwrap_or_default().to_string_lossy();
                    let at = format!("{name}:{}", expected.number);
                    unmet += &format!("{at}: {} on {machine}: {wanted}\n{found}", row.policy);
                }
            }
        }
    }
    assert!(unmet.is_empty(), "expected, but not so:\n{unmet}");
}

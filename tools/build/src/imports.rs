//! Nothing in a driver may be imported that is not there: Wine loads a module with missing imports and ends the process
//! at the first call of one.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use object::pe::IMAGE_SUBSYSTEM_NATIVE;

use crate::pe::{Export, Module, Substance};

/// What softndk.sys may import from (the project's rule; on Windows these five are all there).
const DRIVER_MODULES: [&str; 5] = ["ntoskrnl.exe", "hal.dll", "ndis.sys", "netio.sys", "wdfldr.sys"];
/// The name under which our ntoskrnl.exe reaches Wine's.
const WINE_KERNEL: &str = "ntosbase.exe";

/// The modules that a driver meets under Wine.
pub struct Provided {
    stand_ins: BTreeMap<String, Module>,
    wine: BTreeMap<String, Module>,
}

impl Provided {
    /// Reads the stand-ins in `dist/wine` and the modules of the installed Wine they do not replace.
    pub fn read(stand_ins: &Path, wine: &Path) -> Result<Self> {
        let mut provided = Self { stand_ins: BTreeMap::new(), wine: BTreeMap::new() };
        for name in DRIVER_MODULES {
            if stand_ins.join(name).is_file() {
                provided.stand_ins.insert(name.to_owned(), Module::read(&stand_ins.join(name))?);
            } else {
                provided.wine.insert(name.to_owned(), Module::read(&wine.join(name))?);
            }
        }
        provided.wine.insert(WINE_KERNEL.to_owned(), Module::read(&wine.join("ntoskrnl.exe"))?);
        Ok(provided)
    }

    /// Everything that is wrong with the driver's header and imports, one line each; empty if all is well.
    pub fn problems_of_driver(&self, driver: &Module) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        if driver.subsystem() != IMAGE_SUBSYSTEM_NATIVE {
            problems.push(format!("its subsystem is {:?}, not native", driver.subsystem()));
        }
        for (module, names) in driver.imports() {
            if !DRIVER_MODULES.contains(&module.as_str()) {
                problems.push(format!("it imports from {module}"));
                continue;
            }
            for name in names {
                problems.extend(self.problem(module, name)?.map(|reason| format!("{module} {name}: {reason}")));
            }
        }
        Ok(problems)
    }

    /// What is wrong with the imports that the stand-ins have of one another and of Wine's kernel.
    pub(crate) fn problems_of_stand_ins(&self) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        for (stand_in, module) in &self.stand_ins {
            for (from, names) in module.imports().iter().filter(|(from, _)| self.knows(from)) {
                for name in names {
                    let reason = self.problem(from, name)?;
                    problems.extend(reason.map(|reason| format!("{stand_in} imports {from} {name}: {reason}")));
                }
            }
        }
        Ok(problems)
    }

    fn knows(&self, module: &str) -> bool {
        self.stand_ins.contains_key(module) || self.wine.contains_key(module)
    }

    /// Why a call of this import would not do its work.
    fn problem(&self, module: &str, name: &str) -> Result<Option<String>> {
        if let Some(stand_in) = self.stand_ins.get(module) {
            return match stand_in.export(name) {
                None => Ok(Some("not in the stand-in".to_owned())),
                Some(Export::Own(_)) => Ok(None),
                Some(Export::Forward(to, name)) => self.problem(to, name),
            };
        }
        let Some(wine) = self.wine.get(module) else { return Ok(None) };
        Ok(match wine.export(name) {
            None => Some("neither in a stand-in nor in Wine".to_owned()),
            // Wine forwards to user-mode modules of its own, which are whole.
            Some(Export::Forward(..)) => None,
            Some(Export::Own(entry)) => match wine.substance(name, *entry)? {
                Substance::Real => None,
                Substance::Absent => Some("Wine ends the process when it is called".to_owned()),
                Substance::Hollow => Some("Wine's does nothing".to_owned()),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provided() -> Provided {
        let forward = |name: &str| Export::Forward(WINE_KERNEL.to_owned(), name.to_owned());
        let kernel =
            [("ExAllocatePool2", Export::Own(0x1000)), ("DbgPrint", forward("DbgPrint")), ("IoFly", forward("IoFly"))];
        let to_ntdll = Export::Forward("ntdll.dll".to_owned(), "DbgPrint".to_owned());
        Provided {
            stand_ins: [("ntoskrnl.exe".to_owned(), Module::of_tables(&kernel, &[]))].into(),
            wine: [(WINE_KERNEL.to_owned(), Module::of_tables(&[("DbgPrint", to_ntdll)], &[]))].into(),
        }
    }

    #[test]
    fn imports_that_are_there_are_no_problem() {
        let driver = Module::of_tables(&[], &[("ntoskrnl.exe", &["DbgPrint", "ExAllocatePool2"])]);
        assert_eq!(provided().problems_of_driver(&driver).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_planted_import_that_nobody_provides_is_caught() {
        let driver = Module::of_tables(&[], &[("ntoskrnl.exe", &["DbgPrint", "IoFly", "IoSwim"])]);
        let problems = provided().problems_of_driver(&driver).unwrap();
        assert_eq!(
            problems,
            ["ntoskrnl.exe IoFly: neither in a stand-in nor in Wine", "ntoskrnl.exe IoSwim: not in the stand-in",]
        );
    }

    #[test]
    fn a_module_that_no_driver_of_this_project_needs_is_caught() {
        let driver = Module::of_tables(&[], &[("kernel32.dll", &["Sleep"])]);
        assert_eq!(provided().problems_of_driver(&driver).unwrap(), ["it imports from kernel32.dll"]);
    }
}

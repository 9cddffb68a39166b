/* hdf5_lists.h: an HDF5 file with a dataset whose rows have any number of values. */
#ifndef TESTS_UNIT_HDF5_LISTS_H
#define TESTS_UNIT_HDF5_LISTS_H

#define H5_USE_110_API
#include <hdf5.h>
#include <stdint.h>

/* Rows with 0 to 3 numbers of a type that is converted. */
static void write_hdf5_lists(const char *path)
{
    int16_t numbers[6] = {1, -2, 3, 4, 5, 6};
    hvl_t rows[4] = {{2, numbers}, {0, NULL}, {3, numbers + 2}, {1, numbers + 5}};
    hsize_t dims[1] = {4};
    hid_t f = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), one = H5Screate_simple(1, dims, NULL), type = H5Tvlen_create(H5T_STD_I16BE);
    hid_t memory = H5Tvlen_create(H5T_NATIVE_INT16), d = H5Dcreate2(f, "lists", type, one, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(d, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows);
    H5Dclose(d), H5Tclose(memory), H5Tclose(type), H5Sclose(one), H5Fclose(f);
}

#endif
